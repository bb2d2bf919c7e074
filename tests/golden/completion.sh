#!/usr/bin/env bash
# Asks the bash completion what the shell would ask: completion.sh PROGRAM
set -euo pipefail

program=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir bin models
ln -s "$program" bin/orrery
touch model.mlir mine.yaml
PATH=$folder/bin:$PATH

# shellcheck disable=SC1090
source <(orrery completion bash)
[[ $(complete -p orrery) == 'complete -F _orrery orrery' ]]

failed=0
# complete_line WORD...: the candidates for the last word, sorted.
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _orrery "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
  printf '%s\n' "${COMPREPLY[@]}" | sort
}
# offers "LINE" CANDIDATE...: all of these are among the candidates. The line ends where
# the cursor is: a blank at its end begins a new word.
split() {
  read -ra words <<<"$1"
  if [[ $1 == *' ' ]]; then words+=(''); fi
}
offers() {
  local words candidate found
  split "$1"
  found=$(complete_line "${words[@]}")
  for candidate in "${@:2}"; do
    if ! grep -qxF -- "$candidate" <<<"$found"; then
      echo "'$1' does not offer '$candidate', but: ${found//$'\n'/ }"
      failed=1
    fi
  done
}
# is "LINE" CANDIDATE...: exactly these, sorted.
is() {
  local words found
  split "$1"
  found=$(complete_line "${words[@]}" | tr '\n' ' ')
  if [[ $found != "${*:2} " ]]; then
    echo "'$1' offers '$found' in place of '${*:2}'"
    failed=1
  fi
}

offers 'orrery ' predict compare kernel calibrate validate inspect replay hardware models zoo completion man --help --version
is 'orrery pre' predict
offers 'orrery predict ' resnet-50 bert-base model.mlir models
is 'orrery predict mod' model.mlir models
is 'orrery inspect resnet-50' resnet-50
offers 'orrery predict resnet-50 -' --on --stack --phase --batch --json --help
is 'orrery predict resnet-50 --ph' --phase
offers 'orrery predict resnet-50 --on ' h200 a100-sxm-80gb mine.yaml
is 'orrery predict resnet-50 --on h20' h200
is 'orrery predict resnet-50 --on = h20' h200
is 'orrery kernel --on h200 --batch mo' model.mlir models
is 'orrery compare resnet-50 --on h20' h200
is 'orrery validate mo' model.mlir models
is 'orrery calibrate h20' h200
offers 'orrery predict x --stack ' xla torch-eager
is 'orrery predict x --stack xl' xla
offers 'orrery predict x --kernel-model ' auto roofline tile
is 'orrery predict x --phase ' decode forward prefill train
is 'orrery predict x --regime ' burst sustained
offers 'orrery hardware ' h200 mine.yaml
is 'orrery predict x --batch ' ''
is 'orrery completion ' bash zsh
is 'orrery nonsense ' ''

# Every option that a command's help shows is offered.
for command in predict compare kernel calibrate validate inspect replay hardware models zoo completion man; do
  mapfile -t options < <(orrery "$command" --help | grep -oE '^  --[a-z-]+' | tr -d ' ')
  offers "orrery $command -" "${options[@]}"
done
exit "$failed"
