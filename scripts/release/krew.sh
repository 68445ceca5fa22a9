#!/usr/bin/env bash
# krew.sh FOLDER SOURCE: prints the manifest by which krew installs the plugin of kubectl from the archives in a folder, which a
# release of the repository SOURCE (a URL) publishes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage='usage: krew.sh FOLDER SOURCE'
out=${1:?$usage} source=${2:?$usage}
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)

substitutions=(-e '1d' -e "s|VERSION|$version|g" -e "s|SOURCE|$source|g")
for arch in amd64 arm64; do
  read -r sum _ < <(sha256sum "$out/kube-ipvs-proxy-$version-linux-$arch.tar.gz")
  substitutions+=(-e "s|SHA256-$arch|${sum:?}|")
done
sed "${substitutions[@]}" packaging/ipvs-proxy.yaml
