#!/usr/bin/env bash
# archive.sh ARCH IMAGE FOLDER OUT.tar.gz: packs the program for nodes without containers, from the root file system of the
# image. FOLDER is filled with what is packed: Node.js, the daemon, its addon, a systemd unit, a man page. The same files give
# the same bytes. Unpacked in /usr/local, everything is where it belongs.
set -euo pipefail
umask 022
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage='usage: archive.sh ARCH IMAGE FOLDER OUT.tar.gz'
arch=${1:?$usage} image=${2:?$usage} folder=${3:?$usage} out=${4:?$usage}

rm -rf "$folder"
mkdir -p "$folder"/{bin,sbin,lib/systemd/system,share/man/man8,share/doc/kube-ipvs-proxy}
cp -a "$image/usr/lib/kube-ipvs-proxy" "$folder/lib/"
cp -a "$image/usr/bin/node" "$folder/lib/kube-ipvs-proxy/"
install -m 755 packaging/kube-ipvs-proxy.sh "$folder/sbin/kube-ipvs-proxy"
# No link: krew unpacks folders and files only.
install -m 755 packaging/kube-ipvs-proxy.sh "$folder/bin/kubectl-ipvs_proxy"
install -m 644 packaging/kube-ipvs-proxy.service "$folder/lib/systemd/system/"
node scripts/release/write-man-page.ts >"$folder/share/man/man8/kube-ipvs-proxy.8"
install -m 644 manifests/base/config.conf CHANGELOG.md "$folder/share/doc/kube-ipvs-proxy/"
mv "$folder/lib/kube-ipvs-proxy/LICENSE" "$folder/share/doc/kube-ipvs-proxy/"
# Without the packages of the image, which are not packed.
node scripts/image/sbom.ts "$arch" >"$folder/share/doc/kube-ipvs-proxy/sbom.cdx.json"
rm "$folder/lib/kube-ipvs-proxy/sbom.cdx.json"

tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$folder" . | gzip -9 -n >"$out.new"
mv "$out.new" "$out"
