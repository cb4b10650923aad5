#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a trained network: installs, builds, starts a cluster of real processes on
# this machine, trains a residual network on Fashion-MNIST, evaluates it, and says what came of it.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
usage: deploy/quickstart.sh [options]
  --regime async|sync   how the workers agree (async)
  --workers N           worker processes (2)
  --servers M           parameter servers (2)
  --epochs E            passes over the training set (4)
  --summary FILE        writes the summary as JSON too
TXT
}

refuse() {
  echo "quickstart.sh: $1" >&2
  exit 2
}

# Wrong values are told before minutes of installing and building, not after.
count() {
  [[ $2 =~ ^[1-9][0-9]{0,2}$ && $2 -le 256 ]] || refuse "$1 $2: expected a number from 1 to 256"
}

workers=2
servers=2
sets=()
more=()
while [ $# -gt 0 ]; do
  option=$1
  case "$option" in
    -h | --help)
      usage
      exit 0
      ;;
    --*=*)
      set -- "${option%%=*}" "${option#*=}" "${@:2}"
      continue
      ;;
    --regime | --workers | --servers | --epochs | --summary)
      [ -n "${2-}" ] || refuse "$option needs a value; --help shows all options"
      ;;
    *) refuse "unknown option '$option'; --help shows all options" ;;
  esac
  value=$2
  case "$option" in
    --regime)
      [[ $value = async || $value = sync ]] || refuse "--regime $value: expected async or sync"
      sets+=(--set "regime=$value")
      ;;
    --workers)
      count "$option" "$value"
      workers=$value
      ;;
    --servers)
      count "$option" "$value"
      servers=$value
      ;;
    --epochs)
      # In less than half an epoch the recipe's learning rate does not even warm up.
      [[ $value =~ ^[1-9][0-9]*(\.[0-9]+)?$ ]] ||
        refuse "--epochs $value: expected a number, 1 or more"
      sets+=(--set "epochs=$value")
      ;;
    --summary)
      file=$(cd "$from" && realpath -m -- "$value")
      [ ! -d "$file" ] || refuse "--summary $value: this is a folder, expected the name of a file"
      more+=(--summary "$file")
      ;;
  esac
  shift 2
done

deploy/install-deps.sh

# Where tests/run.sh has been, its build is taken; else one without tests and benchmarks is made.
without=()
grep -qs '^WEIR_BUILD_TESTS:BOOL=ON$' build/release/CMakeCache.txt ||
  without=(-DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_BENCH=OFF)
deploy/build.sh release "${without[@]}" weir weir-coordinator weir-server weir-worker

exec build/release/bin/weir run deploy/quickstart.yaml --own-cluster --replace \
  --servers "$servers" --workers "$workers" "${sets[@]}" "${more[@]}"
