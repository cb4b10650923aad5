#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file reads as clang-format with .clang-format writes it. To mend: clang-format -i FILE.
#   check_format.sh ROOT
set -euo pipefail
cd "$1"
if ! command -v clang-format >/dev/null; then
  echo "Skipped: clang-format is not installed (deploy/install-deps.sh --tests)."
  exit 77
fi
find . -path ./build -prune -o \( -name '*.cc' -o -name '*.h' \) -print0 |
  xargs -0 -P "$(nproc)" -n 50 clang-format --dry-run -Werror
