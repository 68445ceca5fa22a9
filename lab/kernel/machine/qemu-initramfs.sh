#!/usr/bin/env bash
# qemu-initramfs.sh KERNEL FOLDER: writes FOLDER/initramfs, what the emulated machine begins with: busybox, the modules that its root needs, and
# boot-qemu.sh. KERNEL is a folder of fetch-qemu-kernel.sh.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
kernel=$1 folder=$2
root=$folder/initramfs-root
mkdir -p "$root/root"
cp "$kernel/busybox" "$root/"
cp "$(dirname "${BASH_SOURCE[0]}")/boot-qemu.sh" "$root/init"
release=$(basename "$kernel"/lib/modules/*)
modprobe --dirname "$kernel" --set-version "$release" --show-depends --all virtio_pci 9pnet_virtio 9p virtio_console |
  awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
  while read -r module; do
    name=$(basename "$module")
    case $name in
      *.xz) xz --decompress --stdout "$module" >"$root/${name%.xz}" ;;
      *.zst) zstd --quiet --decompress --stdout "$module" >"$root/${name%.zst}" ;;
      *) cp "$module" "$root/" ;;
    esac
    echo "${name%%.ko*}.ko" >>"$root/modules"
  done
cd "$root"
find . | ./busybox cpio -o -H newc 2>/dev/null >"$folder/initramfs"
