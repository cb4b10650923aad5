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
  --epochs E            passes over the training set (as the recipe says)
  --summary FILE        writes the summary as JSON too
TXT
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
  esac
  if [ $# -lt 2 ]; then
    usage >&2
    exit 2
  fi
  case "$option" in
    --regime) sets+=(--set "regime=$2") ;;
    --workers) workers=$2 ;;
    --servers) servers=$2 ;;
    --epochs) sets+=(--set "epochs=$2") ;;
    --summary) more+=(--summary "$(cd "$from" && realpath -m -- "$2")") ;;
    *)
      usage >&2
      exit 2
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
