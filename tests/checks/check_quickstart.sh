#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh refuses wrong options at once, each with what it expected, and takes right ones.
#   check_quickstart.sh SOURCE_FOLDER
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/deploy"
cp "$1/deploy/quickstart.sh" "$folder/deploy/"
# In place of the first thing that it does when all options are right.
printf '#!/bin/sh\nexit 77\n' >"$folder/deploy/install-deps.sh"
chmod +x "$folder/deploy/install-deps.sh"

failed=0
expect() { # exit status, what stderr says, options...
  local status=0 text
  text=$("$folder/deploy/quickstart.sh" "${@:3}" 2>&1 >/dev/null) || status=$?
  if [ "$status" -ne "$1" ] || [ "$text" != "$2" ]; then
    echo "quickstart.sh ${*:3}: expected status $1 and '$2', found status $status and '$text'"
    failed=1
  fi
}

number="expected a number from 1 to 256"
expect 2 "quickstart.sh: --regime fast: expected async or sync" --regime fast
expect 2 "quickstart.sh: --workers 0: $number" --workers 0
expect 2 "quickstart.sh: --workers -1: $number" --workers -1
expect 2 "quickstart.sh: --workers two: $number" --workers=two
expect 2 "quickstart.sh: --servers 0: $number" --servers 0
expect 2 "quickstart.sh: --servers 257: $number" --servers 257
expect 2 "quickstart.sh: --epochs 0: expected a number, 1 or more" --epochs 0
expect 2 "quickstart.sh: --epochs 0.5: expected a number, 1 or more" --epochs 0.5
expect 2 "quickstart.sh: --epochs many: expected a number, 1 or more" --epochs many
expect 2 "quickstart.sh: --summary /: this is a folder, expected the name of a file" --summary /
expect 2 "quickstart.sh: --workers needs a value; --help shows all options" --workers
expect 2 "quickstart.sh: --epochs needs a value; --help shows all options" --epochs=
expect 2 "quickstart.sh: unknown option '--worker'; --help shows all options" --worker 1
expect 2 "quickstart.sh: unknown option 'sync'; --help shows all options" sync
expect 0 "" --help
expect 77 ""
expect 77 "" --regime sync --workers=1 --servers 256 --epochs 1.5 --summary made/later.json
exit "$failed"
