#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that Weir is built from. Quick and without network where all are there.
#   install-deps.sh             what quickstart needs
#   install-deps.sh --tests     and what the tests and benchmarks need
#   install-deps.sh --all       and clang with its runtimes, for the presets of tests/run.sh --all
set -euo pipefail

build=(
  cmake ninja-build ccache mold g++ pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev
  librocksdb-dev libspdlog-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libssl-dev
  libxxhash-dev
  libtorch-dev libopenblas0-pthread  # LibTorch only recommends a fast BLAS
)
run=(dataset-fashion-mnist gnuplot-nox fonts-dejavu-core)
tests=(
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  python3 python3-grpcio python3-protobuf git clang-format
)
all=(clang libclang-rt-dev)

wanted=("${build[@]}" "${run[@]}")
for option in "$@"; do
  case "$option" in
    --tests) wanted+=("${tests[@]}") ;;
    --all) wanted+=("${tests[@]}" "${all[@]}") ;;
    *)
      echo "usage: install-deps.sh [--tests | --all]" >&2
      exit 2
      ;;
  esac
done

# A field of /etc/os-release; nothing where the system does not say.
system() { (. /etc/os-release && echo "${!1-}") 2>/dev/null || true; }
name=$(system PRETTY_NAME)
name=${name:-a system without a name}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat >&2 <<TXT
install-deps.sh: this is $name, without apt, so nothing was installed. Weir is built and tested on Debian 12.
Install what these Debian packages hold by other means, then build as CONTRIBUTING.md says:
$(printf '  %s\n' "${wanted[@]}")
TXT
  exit 1
fi

if [ "$(system ID) $(system VERSION_ID)" != "debian 12" ]; then
  echo "install-deps.sh: this is $name; Weir is built and tested on Debian 12, whose packages are tried here." >&2
fi

missing=()
installed=$(dpkg-query -W -f '${binary:Package} ${Package} ${db:Status-Status}\n' 2>/dev/null |
  awk '$3 == "installed" { print $2 }' | sort -u)
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "All ${#wanted[@]} packages are installed."
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps.sh: neither root nor sudo here. As root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
# `env` because sudo drops variables that it does not know.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Installing ${#missing[@]} packages: ${missing[*]}"
for step in "update" "install -y --no-install-recommends ${missing[*]}"; do
  # shellcheck disable=SC2086  # the words of the step are its arguments
  if ! "${apt[@]}" $step >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "install-deps.sh: apt-get ${step%% *} failed, see above." >&2
    exit 1
  fi
done
echo "Installed."
