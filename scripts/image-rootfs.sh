#!/usr/bin/env bash
# image-rootfs.sh FOLDER: builds the root file system of the container image from the output of `make build` and from
# packages of this Debian or Ubuntu, whose libraries the addon was compiled against. The Dockerfile runs this script, so
# tests of the folder test the image: Node.js, both variants of iptables, modprobe and libraries, without a shell.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=${1:?usage: image-rootfs.sh FOLDER}
debs=build/debs
app=$root/usr/lib/kube-ipvs-proxy

# This list is explicit, because dependencies are not installed. The check at the end finds missing libraries.
packages=(
  base-files netbase
  libc6 libgcc-s1 libstdc++6
  iptables libip4tc2 libip6tc2 libxtables12 libmnl0 libnfnetlink0 libnetfilter-conntrack3 libnftnl11
  kmod libkmod2 liblzma5 libzstd1 libssl3
)

# chroot requires root: other users run it as root of a user namespace.
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(unshare --map-root-user); fi

rm -rf "$root"
# /usr/lib/modules, /etc/kube-ipvs-proxy and /run/kube-ipvs-proxy are mount points, because the root file system may be read-only.
mkdir -p "$root"/{usr/{bin,sbin,lib/modules,lib64},etc/kube-ipvs-proxy,run/kube-ipvs-proxy,tmp,proc,sys,dev,var/lib/dpkg/status.d} "$app"/native "$debs"
chmod 1777 "$root/tmp"
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
ln -s ../run "$root/var/run"

# Download the newest versions once a day; apt verifies them against the signed index of the mirror.
if ! [ "$debs/.stamp" -nt scripts/image-rootfs.sh ] || [ -z "$(find "$debs" -name .stamp -mtime -1)" ]; then
  rm -f "$debs"/*.deb
  download=(apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}")
  # The package index may be missing.
  (cd "$debs" && { "${download[@]}" 2>/dev/null || { "${as_root[@]}" apt-get -qq update && "${download[@]}"; }; })
  touch "$debs/.stamp"
fi
for deb in "$debs"/*.deb; do
  # --keep-directory-symlink: /bin, /sbin, /lib and /lib64 stay symlinks.
  dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory "$root" --keep-directory-symlink \
    --exclude './usr/share/man*' --exclude './usr/share/locale*' --exclude './usr/share/lintian*' \
    --exclude './usr/share/doc/*/changelog*' --exclude './usr/share/doc/*/NEWS*' --exclude './usr/share/bash-completion*'
  # Image scanners read this folder if the image has no package manager.
  dpkg-deb --field "$deb" >"$root/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
# Create the links of the packages' scripts. The daemon detects the node's variant; plain `iptables` is the fallback.
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -sf xtables-nft-multi "$root/usr/sbin/$name"
done
[ -e "$root/usr/sbin/modprobe" ] || ln -s ../bin/kmod "$root/usr/sbin/modprobe"
printf 'root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"

install -m 755 "$(node -p process.execPath)" "$root/usr/bin/node"
install -m 755 build/kube-ipvs-proxy.mjs "$app/"
# For kubectl exec: the image has no /usr/bin/env.
sed -i '1s|.*|#!/usr/bin/node --max-semi-space-size=2|' "$app/kube-ipvs-proxy.mjs"
ln -s ../lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs "$root/usr/bin/kube-ipvs-proxy"
install -m 644 build/kube-ipvs-proxy.{js,js.map} LICENSE "$app/"
install -m 755 build/native/netlink_socket.node "$app/native/"
# List the npm packages that the bundle contains.
npm sbom --omit=dev --sbom-format=cyclonedx --loglevel=error >"$app/sbom.cdx.json"

mkdir -p "$root/etc/ssl"
node -p 'tls.rootCertificates.join("\n")' >"$root/etc/ssl/cert.pem"

ldconfig -r "$root"
in_image=("${as_root[@]}" chroot "$root")
"${in_image[@]}" /usr/sbin/xtables-nft-multi iptables --version
"${in_image[@]}" /usr/sbin/xtables-legacy-multi iptables --version
"${in_image[@]}" /usr/sbin/modprobe --version | head -n 1
"${in_image[@]}" /usr/bin/kube-ipvs-proxy --version
echo "image: $(du -sh "$root" | cut -f 1) in $root"
