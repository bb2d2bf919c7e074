#!/usr/bin/env bash
# Installs the Debian packages named in the given lists that are not installed yet.
#   tools/packages/install.sh LIST.txt...
# Silent when nothing is missing; everything it says goes to stderr.
set -euo pipefail

mapfile -t wanted < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@")

if ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system, so nothing was installed. The build needs what Debian calls:" \
    "${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  # A package of two architectures answers twice.
  [[ $status == installed* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    {
      echo "These Debian packages are missing: ${missing[*]}"
      echo "Neither root nor sudo is at hand to install them. As root, run:"
      echo "  apt-get install --no-install-recommends ${missing[*]}"
    } >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --quiet --yes --no-install-recommends "${missing[@]}" >"$log" 2>&1
}

echo "Installing Debian packages: ${missing[*]}" >&2
# Fresh or stale package lists fail the first attempt; only then is updating worth its time.
if ! install_missing; then
  if ! { "${as_root[@]}" apt-get update --quiet >"$log" 2>&1 && install_missing; }; then
    cat "$log" >&2
    echo "Could not install: ${missing[*]}" >&2
    exit 1
  fi
fi
