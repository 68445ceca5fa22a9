#!/usr/bin/env bash
# packages.sh [qemu|cluster|cross|record]: installs the Debian or Ubuntu packages for the build, the test bed and the demo; with `qemu`,
# those for the emulated machine (lab/kernel/machine/qemu.sh); with `cluster`, those for lab/cluster; with `cross`, those for an
# image of another architecture; with `record`, those that draw a recording of the demo. Fast if no package is missing.
set -euo pipefail

packages=(g++ make iproute2 iptables ipset ipvsadm nftables conntrack kmod curl openssl iputils-ping iputils-arping linux-libc-dev python3)
# Install the test kernel, for machines whose own kernel has no usable IPVS.
if [ "$(uname -m)" = x86_64 ]; then packages+=(user-mode-linux); fi
if [ "${1:-}" = qemu ]; then packages=(qemu-system-x86 kmod xz-utils zstd); fi
if [ "${1:-}" = cluster ]; then
  packages=(mmdebstrap gcc libc6-dev procps util-linux user-mode-linux)
  # Of the nodes' kernel.
  packages+=(linux-source-6.1 make flex bison bc xz-utils libelf-dev libssl-dev)
fi
if [ "${1:-}" = record ]; then packages=(asciinema termtosvg); fi
if [ "${1:-}" = cross ]; then
  case $(uname -m) in
    x86_64) packages=(g++-aarch64-linux-gnu qemu-user-static) ;;
    aarch64) packages=(g++-x86-64-linux-gnu qemu-user-static) ;;
  esac
fi

# One at a time: apt-get fails beside another one.
exec {lock}<"${BASH_SOURCE[0]}"
flock "$lock"

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
