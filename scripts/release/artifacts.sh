#!/usr/bin/env bash
# artifacts.sh FOLDER [IMAGE_NAME]: builds everything that a release publishes: an archive of the image for amd64 and arm64, the
# programs for nodes without containers, the chart, the manifest for krew, lists of components, notes and checksums. IMAGE_NAME, such as
# ghcr.io/owner/kube-ipvs-proxy, becomes the name in the image and, with the digest, in the chart. The result depends on the
# commit, on packages of Debian or Ubuntu and on the compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: artifacts.sh FOLDER [IMAGE_NAME]}
image=${2:-docker.io/library/kube-ipvs-proxy}
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)
host=$(case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac)
helm=$(scripts/go-tool.sh helm)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) GIT_COMMIT=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH GIT_COMMIT

rm -rf "$out"
mkdir -p "$out"
platforms=()
for arch in amd64 arm64; do
  make image archive ARCH=$arch
  folder=build/$arch
  if [ "$arch" = "$host" ]; then folder=build; fi
  platforms+=("$arch=$folder/image")
  cp "$folder/kube-ipvs-proxy-$version-linux-$arch.tar.gz" "$out/"
  cp "$folder/image/usr/lib/kube-ipvs-proxy/sbom.cdx.json" "$out/kube-ipvs-proxy-$version-linux-$arch.cdx.json"
done

# The pinned Node.js, because the compression of layers is part of the digest.
read -r digest _ < <(IMAGE_NAME=$image "build/node/$host/node_modules/node-linux-${host/amd64/x64}/bin/node" scripts/image/main.ts \
  "$out/kube-ipvs-proxy-$version-image.tar" "${platforms[@]}")
echo "$digest" >"$out/image-digest"

# The chart names this very image.
chart=$(mktemp -d "${TMPDIR:-/tmp}/chart.XXXXXX")
trap 'rm -rf "$chart"' EXIT
cp -rL charts/kube-ipvs-proxy "$chart/"
sed -i -e "s|^  repository: .*|  repository: $image|" -e "s|^  digest: .*|  digest: $digest|" "$chart/kube-ipvs-proxy/values.yaml"
"$helm" package "$chart/kube-ipvs-proxy" --destination "$out" >/dev/null

scripts/release/krew.sh "$out" "${IMAGE_SOURCE:-$(sed -n 's/^home: //p' charts/kube-ipvs-proxy/Chart.yaml)}" >"$out/ipvs-proxy.yaml"
node scripts/release/notes.ts "$version" >"$out/notes.md"
(cd "$out" && sha256sum -- *.tar *.tar.gz *.tgz *.json *.yaml >SHA256SUMS)
ls -l "$out"
