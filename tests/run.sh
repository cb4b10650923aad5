#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs them, and ends with ctest's closing lines.
#   tests/run.sh           preset release, without the tests labelled slow, soak and fuzz
#   tests/run.sh --all     those too, and the presets asan, tsan and clang; ends with a table of times and
#                          the names of all tests that failed
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
  deploy/build.sh release
  exec ctest --preset release -j "$(nproc)" -LE '^(slow|soak|fuzz)$'
fi

rows=()
failed=()
minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Builds and tests one preset; a failure is noted and the next one goes on.
run_preset() {
  local preset=$1 start=$SECONDS built outcome=passed name
  local names=build/$preset/Testing/Temporary/LastTestsFailed.log
  rm -f "$names" # of an earlier run
  echo "== $preset"
  if ! deploy/build.sh "$preset"; then
    failed+=("$preset: the build")
    rows+=("$(printf '%-8s %8s %8s  %s' "$preset" "$(minutes $((SECONDS - start)))" - 'not built')")
    return
  fi
  built=$SECONDS
  if ! ctest --preset "$preset" -j "$(nproc)"; then
    outcome=failed
    if [ -s "$names" ]; then
      while IFS=: read -r _ name; do failed+=("$preset: $name"); done <"$names"
    else
      failed+=("$preset: ctest itself, see above")
    fi
  fi
  rows+=("$(printf '%-8s %8s %8s  %s' "$preset" "$(minutes $((built - start)))" \
    "$(minutes $((SECONDS - built)))" "$outcome")")
}

deploy/install-deps.sh --all
for preset in asan tsan clang release; do run_preset "$preset"; done

printf '\n%-8s %8s %8s\n' preset build tests
printf '%s\n' "${rows[@]}"
echo "Total: $(minutes $SECONDS)."
if [ ${#failed[@]} -gt 0 ]; then
  printf 'Failed:\n' >&2
  printf '  %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "All presets passed."
