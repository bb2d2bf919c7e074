#!/usr/bin/env bash
# Has the tools that will read them read the texts written for them, without a warning:
#   readers.sh PROGRAM groff|zsh|bash
# Exits with 77 where the tool is not installed.
set -euo pipefail

program=$1
tool=$2
if ! command -v "$tool" >/dev/null; then
  echo "skipped: $tool is not installed"
  exit 77
fi
text=$(mktemp)
trap 'rm -f "$text"' EXIT

case $tool in
  groff)
    "$program" man >"$text"
    said=$(groff -z -ww -man -Tutf8 "$text" 2>&1)
    # It must hold what it was made from.
    page=$(groff -man -Tutf8 -P-cbou "$text")
    for words in 'EXIT STATUS' 'ORRERY_DATA' '--on DEVICE' 'Default: xla' 'orrery predict WORKLOAD'; do
      grep -qF -- "$words" <<<"$page" || said+="the page does not say '$words'"
    done
    ;;
  zsh)
    "$program" completion zsh >"$text"
    said=$(zsh -n "$text" 2>&1 || true)
    here=$(dirname "$(readlink -f "$0")")
    said+=$(zsh -f "$here/completion.zsh" "$program" "$here/../.." 2>&1 || echo "completion.zsh: $?")
    ;;
  bash)
    "$program" completion bash >"$text"
    said=$(bash -n "$text" 2>&1 || true)
    ;;
esac
if [[ -n $said ]]; then
  echo "$said"
  exit 1
fi
