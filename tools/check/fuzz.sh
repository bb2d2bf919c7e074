#!/usr/bin/env bash
# Runs the fuzz targets of the finished preset `fuzz`, two or more at a time.
#   tools/check/fuzz.sh SECONDS [NAME...]     NAME as in fuzz/NAME_fuzz.cc; all by default
# Seeds come from fuzz/corpus/NAME; what the fuzzer finds to add goes to the build folder
# and is used again next time. An input that fails is left in build/fuzz/found.
set -euo pipefail

root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
cd "$root"
seconds=$1
shift
names=("$@")
if ((${#names[@]} == 0)); then
  mapfile -t names < <(find fuzz -maxdepth 1 -name '*_fuzz.cc' -printf '%f\n' | sed 's/_fuzz\.cc$//' | sort)
fi
if ((${#names[@]} == 0)); then
  echo "      no fuzz targets"
  exit 0
fi

fuzz_one() { # SECONDS NAME
  local name=$2 log=build/fuzz/found/$2.log grown=build/fuzz/corpus/$2 corpora=()
  mkdir -p "$grown"
  corpora=("$grown")
  if [[ -d fuzz/corpus/$name ]]; then corpora+=("fuzz/corpus/$name"); fi
  # Limits as the readers promise them: no input takes 5 s or a gigabyte. A sanitized
  # process is allowed twice the memory.
  if ! "build/fuzz/fuzz/${name}_fuzz" -max_total_time="$1" -timeout=5 -rss_limit_mb=2048 \
    -seed=1 -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name-" \
    "${corpora[@]}" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "      $name: FAILED, see $log"
    return 1
  fi
  echo "      $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, clean"
}
export -f fuzz_one

mkdir -p build/fuzz/found
# xargs fails when any of them did.
# shellcheck disable=SC2016  # Expanded by the shell that xargs starts.
printf '%s\n' "${names[@]}" |
  xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz_one "$1" "$2"' fuzz "$seconds" {}
