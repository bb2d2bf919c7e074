#!/usr/bin/env bash
# Shows that a Debian 12 with nothing but git can build and run what is committed here,
# by doing it: the steps of the Dockerfile in a system made by debootstrap.
#
#   tools/packages/prove_clean_system.sh [--check] [--without-shared] [FOLDER]
#
#   --check           run the whole ./check inside as well
#   --without-shared  hide ../shared, the measured data, even where it is present
#   FOLDER            where the system is made (default /tmp/orrery-clean-system); its
#                     base/ is kept for the next time, all else is made anew
#
# Needs root and debootstrap. The mirror, and a proxy or certificates where the network
# asks for them, are those that this machine's apt uses.
set -euo pipefail

root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
root=$(readlink -f "$root")
release=bookworm
with_check=false
shared=$root/../shared
folder=/tmp/orrery-clean-system
for argument in "$@"; do
  case $argument in
    --check) with_check=true ;;
    --without-shared) shared= ;;
    -*)
      sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
    *) folder=$argument ;;
  esac
done
[[ -d $shared ]] || shared=

if ((EUID != 0)); then
  echo "debootstrap and chroot need root: run this with sudo" >&2
  exit 1
fi

say() { printf '== %s\n' "$*"; }

# Lines "URI SUITE" of the Debian repositories this machine installs from.
debian_repositories() {
  # shellcheck disable=SC2016  # The dollars are apt's.
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    sed -n -E "s#^([^ ]*/debian(-security)?)/? (${release}[a-z-]*)\$#\1 \3#p" | sort -u
}

# What the inner system needs to reach the network as this one does.
copy_network_settings() {
  local into=$1
  debian_repositories | sed 's/.*/deb & main/' >"$into/etc/apt/sources.list"
  apt-config dump | grep -iE '^Acquire::(https?|ftp)::' >"$into/etc/apt/apt.conf.d/90network" || true
  cp /etc/resolv.conf /etc/hosts "$into/etc/"
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    cp /usr/local/share/ca-certificates/*.crt "$into/usr/local/share/ca-certificates/"
    chroot "$into" update-ca-certificates >/dev/null 2>&1
  fi
}

make_base() {
  local mirror
  mirror=$(debian_repositories | awk -v suite="$release" '$2 == suite {print $1; exit}')
  say "debootstrap $release, minbase with git and ca-certificates"
  rm -rf "$folder/base"
  debootstrap --variant=minbase --include=git,ca-certificates \
    "$release" "$folder/base.part" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    { tail -20 "$folder/debootstrap.log" >&2; exit 1; }
  copy_network_settings "$folder/base.part"
  rm -rf "$folder/base.part/var/lib/apt/lists" # As in a container's base image.
  mv "$folder/base.part" "$folder/base"
}

mkdir -p "$folder"
rm -rf "$folder/base.part"
[[ -d $folder/base ]] || make_base

say "a fresh system with a clone of $(git -C "$root" rev-parse --short HEAD)"
if [[ -n $(git -C "$root" status --porcelain) ]]; then
  echo "   (uncommitted changes are not part of it)"
fi
system=$folder/system
rm -rf --one-file-system "$system"
cp -a --reflink=auto "$folder/base" "$system"
git -c safe.directory='*' clone --quiet "$root" "$system/home/orrery"

script=$(
  cat <<'INSIDE'
set -euo pipefail
step() {
  local began=$SECONDS
  printf '== %s\n' "$*"
  "$@"
  printf '== took %d s\n' $((SECONDS - began))
}
cd /
step /home/orrery/run --version
step /home/orrery/run --version
example=/home/orrery/examples/llama2_7b_prefill.mlir
if [[ -f $example ]]; then step /home/orrery/run predict "$example" --on h200; fi
if [[ $1 == true ]]; then step /home/orrery/check; fi
INSIDE
)

# The mounts live in a namespace of their own and go with it.
export system shared script with_check
# shellcheck disable=SC2016  # Expanded by the inner shell, from what is exported.
unshare --mount --fork bash -euo pipefail -c '
  mount -t proc proc "$system/proc"
  mount --rbind /dev "$system/dev"
  if [[ -n $shared ]]; then
    mkdir "$system/home/shared"
    mount --bind "$shared" "$system/home/shared"
    mount -o remount,bind,ro "$system/home/shared"
    echo "== with the measured data beside it"
  else
    echo "== without measured data beside it"
  fi
  exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} \
    ${no_proxy+no_proxy="$no_proxy"} chroot "$system" bash -c "$script" inside "$with_check"
'
say "done: it works in a clean $release"
