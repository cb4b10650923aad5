#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install-deps.sh on other systems than this one: what it says there, and what it would install.
#   check_install_deps.sh SOURCE_FOLDER
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bin=$folder/bin
mkdir "$bin"
# A system of its own: the script reads its os-release and finds programs in its bin alone.
sed "s|/etc/os-release|$folder/os-release|" "$1/deploy/install-deps.sh" >"$folder/install-deps.sh"
for program in awk cat env grep mktemp rm sort tail; do
  ln -s "$(command -v "$program")" "$bin/$program"
done

stub() { # program, its lines
  printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
  chmod +x "$bin/$1"
}
debian() { # version, packages that are installed...
  printf 'PRETTY_NAME="%s"\nID=%s\nVERSION_ID="%s"\n' "Debian GNU/Linux $1" debian "$1" \
    >"$folder/os-release"
  has_apt "${@:2}"
}
has_apt() { # packages that are installed...
  stub dpkg-query "for package in $*; do echo \"\$package:amd64 \$package installed\"; done"
  stub apt-get "echo \"\$@\" >>$folder/calls"
}
stub id 'echo 0'

failed=0
expect() { # exit status, pattern of what it prints, pattern of the calls of apt-get
  local status=0 text called
  rm -f "$folder/calls"
  text=$(PATH=$bin /bin/bash "$folder/install-deps.sh" 2>&1) || status=$?
  called=$(cat "$folder/calls" 2>/dev/null || true)
  if [ "$status" -ne "$1" ] || [[ ! $text =~ $2 ]] || [[ ! $called =~ $3 ]]; then
    printf 'expected status %s, text like %s, calls like %s; found status %s and\n%s\nwith the calls\n%s\n' \
      "$@" "$status" "$text" "$called"
    failed=1
  fi
}
tried="Weir is built and tested on Debian 12, whose packages are tried here."
installs="update.*install -y --no-install-recommends cmake .*libgrpc\+\+-dev"

debian 12
expect 0 "^Installing [0-9]+ packages: cmake [^"$'\n'"]*"$'\n'"Installed.\$" "$installs"
mapfile -t all < <(sed -n 's/.*no-install-recommends //p' "$folder/calls" | tr ' ' '\n')
debian 12 "${all[@]}"
expect 0 "^All ${#all[@]} packages are installed.\$" "^\$"
debian 12 "${all[@]:1}" cmake-data
expect 0 "^Installing 1 packages: cmake" "install -y --no-install-recommends cmake\$"

# One line, and on it goes.
debian 13
expect 0 "^install-deps.sh: this is Debian GNU/Linux 13; $tried"$'\n'"Installing " "$installs"
printf 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n' >"$folder/os-release"
expect 0 "^install-deps.sh: this is Ubuntu 24.04.1 LTS; $tried"$'\n'"Installing " "$installs"
rm "$folder/os-release"
expect 0 "^install-deps.sh: this is a system without a name; $tried"$'\n'"Inst" "$installs"

printf 'PRETTY_NAME="Fedora Linux 40"\nID=fedora\nVERSION_ID=40\n' >"$folder/os-release"
rm "$bin/apt-get"
expect 1 "this is Fedora Linux 40, without apt, so nothing was installed.*  cmake.*  libtorch-dev" "^\$"

debian 12
stub apt-get 'echo "E: no such package"; exit 100'
expect 1 "E: no such package"$'\n'"install-deps.sh: apt-get update failed, see above.\$" "^\$"
debian 12
stub id 'echo 1000'
expect 1 "neither root nor sudo here. As root, run: apt-get install cmake " "^\$"
exit "$failed"
