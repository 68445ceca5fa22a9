#!/usr/bin/env bash
# fetch-qemu-kernel.sh CACHE: puts Debian's newest kernel into CACHE/linux-RELEASE: vmlinuz, lib/modules, and a busybox to boot with. It is not
# installed: a machine's own boot is none of our business. The last line on stderr is the cause when it fails.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
cache=$1
mkdir -p "$cache"
# Several may do this at a time: each has a folder of its own until it is whole.
new=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
cd "$new"

download() {
  local image
  image=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  if [ -z "$image" ]; then
    echo "apt knows no package linux-image-amd64, run as root: apt-get update" >&2
    return 1
  fi
  apt-get -qq -o APT::Sandbox::User=root download "$image" busybox-static
}
# A machine that has not asked the mirror for long has no index, or an old one.
if ! download 2>/dev/null; then
  if [ "$(id -u)" = 0 ]; then apt-get -qq update >/dev/null 2>&1 || true; fi
  download
fi

# Of the drivers, those of devices that an emulated machine and a network namespace have.
kernel='./*lib/modules/*/kernel'
dpkg-deb --fsys-tarfile linux-image-*.deb | tar --extract --wildcards --no-wildcards-match-slash \
  './boot/vmlinuz-*' './*lib/modules/*/modules.*' "$kernel"/{arch,crypto,fs,lib,net} "$kernel"/drivers/{char,net/*.ko*,virtio}
dpkg-deb --fsys-tarfile busybox-static_*.deb | tar --extract --wildcards './*bin/busybox'
rm ./*.deb
mv boot/vmlinuz-* vmlinuz
for folder in bin usr/bin; do if [ -e "$folder/busybox" ]; then mv "$folder/busybox" .; fi; done
if [ -d usr/lib/modules ]; then mv usr/lib lib; fi
release=$(basename lib/modules/*)
depmod --basedir "$new" "$release"
chmod 755 "$new"
# Somebody else's that came first is as good.
mv --no-target-directory "$new" "$cache/linux-$release" 2>/dev/null || [ -e "$cache/linux-$release/vmlinuz" ]
