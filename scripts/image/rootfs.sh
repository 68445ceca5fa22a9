#!/usr/bin/env bash
# rootfs.sh ARCH ADDON NODE FOLDER: builds the root file system of the container image for amd64 or arm64 from the output of
# `make build`, a Node.js program and packages of this Debian or Ubuntu. The Dockerfile runs this script, so tests of the
# folder test the image: Node.js, both variants of iptables, modprobe and libraries, without a shell. The same inputs give
# the same files.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C
umask 022
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage='usage: rootfs.sh ARCH ADDON NODE FOLDER'
arch=${1:?$usage} addon=${2:?$usage} node=${3:?$usage} root=${4:?$usage}
debs=build/debs/$arch
app=$root/usr/lib/kube-ipvs-proxy
case $arch in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) echo "rootfs.sh: no such architecture: $arch" >&2; exit 2 ;;
esac
cross=
if [ "$(uname -m)" != "$machine" ]; then cross=$machine-linux-gnu-; fi

# Ubuntu has another name for Debian's libssl3 since 24.04, where libssl3 is a virtual package.
libssl() {
  if grep -qx 'ID=ubuntu' /etc/os-release && [ "$(sed -n 's/^VERSION_ID="\([0-9]*\).*/\1/p' /etc/os-release)" -ge 24 ]; then
    echo libssl3t64
  else
    echo libssl3
  fi
}

# This list is explicit, because dependencies are not installed. The check at the end finds missing libraries.
packages=(
  base-files netbase
  libc6 libgcc-s1 libstdc++6
  iptables libip4tc2 libip6tc2 libxtables12 libmnl0 libnfnetlink0 libnetfilter-conntrack3 libnftnl11
  kmod libkmod2 liblzma5 libzstd1 "$(libssl)"
)
# Documentation except licenses, and what no program of the image opens: encodings of iconv, vector mathematics, TLS (kmod
# uses the library of ciphers only).
without=(
  ./usr/share/{man,locale,lintian,bash-completion,base-files,bug,dict,gcc,gdb,info,initramfs-tools,iptables,misc}'*'
  './usr/share/doc/*/changelog*' './usr/share/doc/*/NEWS*' './usr/share/doc/*/README*'
  './usr/lib/*/gconv*' './lib/*/gconv*' './usr/lib/*/libmvec*' './lib/*/libmvec*'
  './usr/lib/*/libssl.so*' './usr/lib/*/engines-3*' './usr/lib/*/ossl-modules*' './etc/update-motd.d*' './etc/profile.d*'
)

# chroot requires root: other users run it as root of a user namespace.
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(unshare --map-root-user); fi

rm -rf "$root"
# /usr/lib/modules, /etc/kube-ipvs-proxy and /run/kube-ipvs-proxy are mount points, because the root file system may be
# read-only.
mkdir -p "$root"/{usr/{bin,sbin,lib/modules,lib64},etc/kube-ipvs-proxy,run/kube-ipvs-proxy,tmp,proc,sys,dev,var/lib/dpkg/status.d} "$app"/native
chmod 1777 "$root/tmp"
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
ln -s ../run "$root/var/run"

# Downloads the newest versions; apt verifies them against the signed index of the mirror.
download() {
  local get=(apt-get -qq -o APT::Sandbox::User=root)
  if [ -n "$cross" ]; then
    # The other architecture has an index of its own, which must not become one of this machine's.
    local state
    state=$(realpath "$debs")/apt
    mkdir -p "$state"/{lists,cache}
    touch "$state/status"
    get+=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$state" -o "Dir::State::status=$state/status")
    get+=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache")
  fi
  # The package index may be missing.
  (cd "$debs" && { "${get[@]}" download "${packages[@]}" 2>/dev/null ||
    { "${as_root[@]}" "${get[@]}" update && "${get[@]}" download "${packages[@]}"; }; })
}

# Once a day.
mkdir -p "$debs"
if ! [ "$debs/.stamp" -nt scripts/image/rootfs.sh ] || [ -z "$(find "$debs" -name .stamp -mtime -1)" ]; then
  rm -f "$debs"/*.deb
  download
  touch "$debs/.stamp"
fi
for deb in "$debs"/*.deb; do
  # --keep-directory-symlink: /bin, /sbin, /lib and /lib64 stay symlinks.
  dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory "$root" --keep-directory-symlink --no-same-owner "${without[@]/#/--exclude=}"
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

"${cross}strip" -o "$root/usr/bin/node" "$node"
node scripts/image/slim-node.ts "$root/usr/bin/node" "$root/usr/bin/node"
install -m 755 build/kube-ipvs-proxy.mjs "$app/"
# For kubectl exec: the image has no /usr/bin/env.
sed -i '1s|.*|#!/usr/bin/node --max-semi-space-size=2|' "$app/kube-ipvs-proxy.mjs"
ln -s ../lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs "$root/usr/bin/kube-ipvs-proxy"
install -m 644 build/kube-ipvs-proxy{.js,.js.map,-engine.cjs,-engine.cjs.map} LICENSE "$app/"
# V8 of another architecture would not take the code cache: there, each start compiles the program.
[ -n "$cross" ] || node scripts/compile.ts "$app/kube-ipvs-proxy.js" "$app/kube-ipvs-proxy.cache"
"${cross}strip" -o "$app/native/netlink_socket.node" "$addon"
chmod 755 "$root/usr/bin/node" "$app/native/netlink_socket.node"
node scripts/image/sbom.ts "$arch" "$root" >"$app/sbom.cdx.json"
mkdir -p "$root/etc/ssl"
node -p 'tls.rootCertificates.join("\n")' >"$root/etc/ssl/cert.pem"

# The dynamic linker searches this folder without a cache.
libraries=$root/usr/lib/$machine-linux-gnu
while read -r library; do
  [ -e "$libraries/$library" ] || [ -e "$root/usr/lib/$library" ] || { echo "rootfs.sh: $library is missing" >&2; exit 1; }
done < <(find "$root/usr/bin" "$root/usr/sbin" "$app/native" "$libraries" -type f -exec readelf --dynamic {} + 2>/dev/null |
  sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u)

inside='' in_image=("${as_root[@]}" chroot "$root")
if [ -n "$cross" ]; then
  emulator=qemu-$machine-static
  if ! command -v "$emulator" >/dev/null; then
    echo "image: the programs for $arch were not run, because $emulator is not installed"
    exit 0
  fi
  # The emulator looks for libraries in the image first.
  inside=$root in_image=("$emulator" -L "$root")
fi
run() {
  "${in_image[@]}" "$inside$1" "${@:2}"
}
daemon=$inside/usr/lib/kube-ipvs-proxy
# The emulator has no netlink socket of nf_tables.
if [ -z "$cross" ]; then run /usr/sbin/xtables-nft-multi iptables --version; fi
run /usr/sbin/xtables-legacy-multi iptables --version
run /usr/bin/kmod --version | head -n 1
run /usr/bin/node "$daemon/kube-ipvs-proxy.mjs" --version
if [ -z "$cross" ]; then
  run /usr/bin/node -e 'const { readFileSync } = require("node:fs"), file = process.argv[1], { Script } = require("node:vm");
    const cachedData = readFileSync(`${file}.cache`).subarray(8);
    if (new Script(readFileSync(`${file}.js`, "latin1"), { cachedData }).cachedDataRejected !== false)
      throw new Error("the code cache is of another Node.js");' "$daemon/kube-ipvs-proxy"
fi
# All that needs no kernel.
for file in manifests/demo/*.yaml; do cat "$file" && echo ---; done |
  run /usr/bin/node "$daemon/kube-ipvs-proxy.mjs" plan -f - -- --hostname-override=node-0 | sed -n 1p
run /usr/bin/node -e 'process.dlopen({ exports: {} }, process.argv[1])' "$daemon/native/netlink_socket.node"
echo "image: $(du -s --apparent-size -m "$root" | cut -f 1) MiB in $root"
