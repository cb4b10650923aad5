#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh refuses wrong options at once, each with what it expected, and does nothing; of right
# ones it makes the command lines that are expected here, which `weir run` knows the flags of.
#   check_quickstart.sh SOURCE_FOLDER BIN_FOLDER
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/deploy" "$folder/build/release/bin"
cp "$1/deploy/quickstart.sh" "$folder/deploy/"
calls=$folder/calls

# In place of what it calls: each notes its name and arguments, and ends with $1.
stub() { # exit status, name
  printf '#!/bin/sh\necho %s "$@" >>"%s"\nexit %s\n' "$2" "$calls" "$1" >"$folder/$2"
  chmod +x "$folder/$2"
}
install=deploy/install-deps.sh
build=deploy/build.sh
weir=build/release/bin/weir
stub 0 $install
stub 0 $build
stub 77 $weir

failed=0
expect() { # exit status, what stderr says, what was called, options...
  local status=0 text called
  rm -f "$calls"
  text=$("$folder/deploy/quickstart.sh" "${@:4}" 2>&1 >/dev/null) || status=$?
  called=$(cat "$calls" 2>/dev/null || true)
  if [ "$status" -ne "$1" ] || [ "$text" != "$2" ] || [ "$called" != "$3" ]; then
    printf 'quickstart.sh %s: expected status %s, %s and the calls\n%s\nfound status %s, %s and\n%s\n' \
      "${*:4}" "$1" "'$2'" "$3" "$status" "'$text'" "$called"
    failed=1
  fi
}
refused() { expect 2 "quickstart.sh: $1" "" "${@:2}"; }

number="expected a number from 1 to 256"
refused "--regime fast: expected async or sync" --regime fast
refused "--workers 0: $number" --workers 0
refused "--workers -1: $number" --workers -1
refused "--workers two: $number" --workers=two
refused "--servers 0: $number" --servers 0
refused "--servers 257: $number" --servers 257
refused "--epochs 0: expected a number, 1 or more" --epochs 0
refused "--epochs 0.5: expected a number, 1 or more" --epochs 0.5
refused "--epochs many: expected a number, 1 or more" --epochs many
refused "--summary /: this is a folder, expected the name of a file" --summary /
refused "--workers needs a value; --help shows all options" --workers
refused "--epochs needs a value; --help shows all options" --epochs=
refused "unknown option '--worker'; --help shows all options" --worker 1
refused "unknown option 'sync'; --help shows all options" sync
expect 0 "" "" --help

targets="weir weir-coordinator weir-server weir-worker"
build_first="$install
$build release -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_BENCH=OFF $targets"
run="$weir run deploy/quickstart.yaml --own-cluster --replace"
expect 77 "" "$build_first
$run --servers 2 --workers 2"
expect 77 "" "$build_first
$run --servers 256 --workers 1 --set regime=sync --set epochs=1.5 --summary $PWD/made/later.json" \
  --regime sync --workers=1 --servers 256 --epochs 1.5 --summary made/later.json

# The build of tests/run.sh, where there is one, stays as it is.
echo 'WEIR_BUILD_TESTS:BOOL=ON' >"$folder/build/release/CMakeCache.txt"
expect 77 "" "$install
$build release $targets
$run --servers 2 --workers 2 --set regime=async" --regime=async

stub 4 $build
expect 4 "" "$install
$build release $targets"
stub 3 $install
expect 3 "" "$install"

help=$("$2/weir" run --help)
for flag in --own-cluster --replace --servers --workers --set --summary; do
  if ! grep -qE -- "(^|[ ,])$flag\b" <<<"$help"; then
    echo "weir run has no flag $flag"
    failed=1
  fi
done
exit "$failed"
