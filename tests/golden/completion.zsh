#!/usr/bin/env zsh
# Types into a zsh of its own and presses Tab: completion.zsh PROGRAM FOLDER-OF-THE-DATA
emulate -R zsh
zmodload zsh/zpty || exit 77

program=${1:A} data=${2:A}
folder=$(mktemp -d)
trap 'zpty -d shell 2>/dev/null; rm -rf $folder' EXIT
mkdir $folder/bin
ln -s $program $folder/bin/orrery
touch $folder/model.mlir
$program completion zsh >$folder/_orrery || exit 1

cd $folder
PATH=$folder/bin:$PATH ORRERY_DATA=$data TERM=dumb zpty shell zsh -f -i

# expect TEXT: reads until it appears, at most 30 s.
seen=
expect() {
  local chunk deadline=$((SECONDS + 30))
  while [[ $seen != *$1* ]]; do
    if ((SECONDS > deadline)); then return 1; fi
    if zpty -r -t shell chunk; then seen+=$chunk; else sleep 0.05; fi
  done
}
zpty -w shell "fpath=($folder \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; PS1=; echo re''ady"
expect ready || { print -r -- "no shell: $seen"; exit 1 }

failed=0
# completes LINE WHOLE: Tab after LINE makes it WHOLE.
completes() {
  seen=
  zpty -w -n shell $1$'\t'
  # Then the line is made an argument of echo, which shows the whole of it.
  zpty -w -n shell $'\x01echo "(\x05)"\n'
  if ! expect $'\n'"($2)"; then
    print -r -- "'$1' does not become '$2', but: $seen"
    failed=1
  fi
}
completes 'orrery pre' 'orrery predict'
completes 'orrery predict --on h20' 'orrery predict --on h200'
completes 'orrery predict resnet-5' 'orrery predict resnet-50'
completes 'orrery predict mod' 'orrery predict model.mlir'
completes 'orrery predict x --phase de' 'orrery predict x --phase decode'
completes 'orrery predict x --stack=torch-e' 'orrery predict x --stack=torch-eager'
completes 'orrery kernel --batch mod' 'orrery kernel --batch model.mlir'
exit $failed
