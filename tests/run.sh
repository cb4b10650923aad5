#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs them, and ends with ctest's closing lines.
#   tests/run.sh           preset release, without the tests labelled slow, soak and fuzz
#   tests/run.sh --all     those too, and the presets asan, tsan and clang
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
case "${1-}" in
  "") ;;
  --all) all=true ;;
  *)
    echo "usage: tests/run.sh [--all]" >&2
    exit 2
    ;;
esac

if ! $all; then
  deploy/install-deps.sh --tests
  deploy/build.sh release -DWEIR_BUILD_TESTS=ON -DWEIR_BUILD_BENCH=ON
  exec ctest --preset release -j "$(nproc)" -LE '^(slow|soak|fuzz)$'
fi

deploy/install-deps.sh --all
failed=()
for preset in asan tsan clang release; do
  echo "== $preset"
  if ! deploy/build.sh "$preset" -DWEIR_BUILD_TESTS=ON || ! ctest --preset "$preset" -j "$(nproc)"; then
    failed+=("$preset")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "Failed: ${failed[*]}" >&2
  exit 1
fi
