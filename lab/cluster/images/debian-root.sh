#!/usr/bin/env bash
# debian-root.sh FOLDER: a minimal Debian with the network tools that e2e specs run in Pods. Needs root and a Debian mirror.
# Does nothing if FOLDER was built by this version of the script.
set -euo pipefail
root=${1:?usage: debian-root.sh FOLDER}
mkdir -p "$(dirname "$root")"
# Others may want the same root at the same time.
exec 9>"$root.lock"
flock 9
built_by=$(sha256sum <"${BASH_SOURCE[0]}")
if [ "$(cat "$root.built-by" 2>/dev/null)" = "$built_by" ]; then exit 0; fi

# Specs need the real wget, curl and dig. iptables, ipset, conntrack and kmod are for the kube-proxy image.
packages=(wget curl bind9-dnsutils netcat-openbsd iproute2 iputils-ping procps ca-certificates
  iptables ipset ipvsadm nftables conntrack kmod tcpdump)

rm -rf "$root" "$root.built-by"
include=$(IFS=,; echo "${packages[*]}")
# iptables is the legacy variant, as on the nodes. /uploads is for agnhost netexec.
mmdebstrap --quiet --variant=minbase --include="$include" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/lib/*/gconv/*' \
  --customize-hook='chroot "$1" update-alternatives --set iptables /usr/sbin/iptables-legacy' \
  --customize-hook='chroot "$1" update-alternatives --set ip6tables /usr/sbin/ip6tables-legacy' \
  --customize-hook='mkdir -m 1777 "$1/uploads"' \
  --customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
  bookworm "$root"
# The container runtime makes its own devices.
rm -rf "$root"/dev/*
echo "$built_by" >"$root.built-by"
