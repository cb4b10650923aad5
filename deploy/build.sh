#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset and builds it, with one line of progress instead of a screenful.
#   build.sh PRESET [-DNAME=VALUE ...] [TARGET ...]
# Without targets it builds all. The whole output is in build/PRESET/build.log.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
definitions=()
targets=()
for word in "$@"; do
  case "$word" in
    -D*) definitions+=("$word") ;;
    *) targets+=("$word") ;;
  esac
done

# Outside the tree, so that a fresh clone builds as fast as an old one.
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/weir-ccache}
folder=build/$preset
log=$folder/build.log
mkdir -p "$folder"

if ! cmake --preset "$preset" "${definitions[@]}" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "build.sh: configuring $preset failed; the whole output is in $log" >&2
  exit 1
fi

# A file that includes LibTorch takes 1.3 GB to compile.
jobs=$(nproc)
memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
fitting=$((memory_kb / 1500000))
[ "$fitting" -ge 1 ] || fitting=1
[ "$jobs" -le "$fitting" ] || jobs=$fitting

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Reads ninja's lines "[done/total] ..." and says how far it is: in place on a terminal, else a line
# every half a minute.
show_progress() {
  local start=$SECONDS shown=$SECONDS line done_steps total text
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    done_steps=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    local elapsed=$((SECONDS - start))
    text="Building $preset: $done_steps of $total"
    if [ "$elapsed" -ge 5 ]; then
      text+=", about $(minutes $((elapsed * (total - done_steps) / done_steps))) left"
    fi
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$text"
    elif [ $((SECONDS - shown)) -ge 30 ]; then
      shown=$SECONDS
      printf '%s\n' "$text"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

if ! ninja -C "$folder" -j "$jobs" "${targets[@]}" 2>&1 | show_progress; then
  awk '/^FAILED: / { failed = 1 } failed && !/^\[[0-9]+\/[0-9]+\]/' "$log" | head -n 120 >&2
  echo "build.sh: building $preset failed; the whole output is in $log" >&2
  exit 1
fi
echo "Built $preset in $(minutes $SECONDS)."
