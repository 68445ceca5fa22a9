#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that the build, the test bed and the demo need. Quick when nothing is missing.
set -euo pipefail

packages=(g++ make iproute2 iptables ipset ipvsadm nftables conntrack kmod curl openssl iputils-ping iputils-arping linux-libc-dev python3)
# The test kernel stands in where this machine's own kernel has no IPVS (or we may not use it).
if [ "$(uname -m)" = x86_64 ]; then packages+=(user-mode-linux); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ]; then
  sudo=()
elif command -v sudo >/dev/null; then
  sudo=(sudo)
else
  echo "packages missing: ${missing[*]}. Install them as root: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
