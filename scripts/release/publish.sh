#!/usr/bin/env bash
# publish.sh FOLDER IMAGE_NAME CHARTS [--dry-run]: publishes what artifacts.sh has built. IMAGE_NAME and CHARTS name places in a
# registry, such as ghcr.io/owner/kube-ipvs-proxy and oci://ghcr.io/owner/charts. It needs skopeo, gh and cosign, logged in, and
# signs with the identity of the workflow, without a key. --dry-run prints the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage='usage: publish.sh FOLDER IMAGE_NAME CHARTS [--dry-run]'
out=${1:?$usage} image=${2:?$usage} charts=${3:?$usage} dry_run=${4:-}
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)
digest=$(cat "$out/image-digest")
helm=helm cosign=cosign
pushed=$(mktemp)
trap 'rm -f "$pushed"' EXIT
if [ -z "$dry_run" ]; then
  if [ "${GITHUB_REF_NAME:-}" != "v$version" ]; then
    echo "publish.sh: the tag ${GITHUB_REF_NAME:-} is not v$version, the version in package.json" >&2
    exit 1
  fi
  # A release has notes of its own.
  node scripts/release/notes.ts "$version" >/dev/null
  helm=$(scripts/go-tool.sh helm)
  cosign=$(scripts/go-tool.sh cosign)
fi

run() {
  printf '+ %s\n' "$*"
  if [ -z "$dry_run" ]; then "$@"; fi
}

(cd "$out" && sha256sum --check --quiet SHA256SUMS)
# The layers are not compressed again, so the digest stays.
run skopeo copy --all --preserve-digests "oci-archive:$out/kube-ipvs-proxy-$version-image.tar" "docker://$image:v$version"
run "$cosign" sign --yes "$image@$digest"
for arch in amd64 arm64; do
  list=$out/kube-ipvs-proxy-$version-linux-$arch.cdx.json
  run "$cosign" attest --yes --type cyclonedx --predicate "$list" "$image@$digest"
done
# helm prints the digest of what it has pushed, which only the registry knows.
chart_digest='DIGEST'
run "$helm" push "$out/kube-ipvs-proxy-$version.tgz" "$charts" 2>&1 | tee "$pushed"
if [ -z "$dry_run" ]; then
  chart_digest=$(sed -n 's/^Digest: \(sha256:[0-9a-f]\{64\}\)$/\1/p' "$pushed")
  if [ -z "$chart_digest" ]; then
    echo 'publish.sh: helm push printed no digest, so the chart cannot be signed' >&2
    exit 1
  fi
fi
run "$cosign" sign --yes "${charts#oci://}/kube-ipvs-proxy@$chart_digest"
run "$cosign" sign-blob --yes --bundle "$out/SHA256SUMS.bundle" "$out/SHA256SUMS"
files=("$out"/*.tar.gz "$out"/*.tgz "$out"/*.json "$out/ipvs-proxy.yaml" "$out/SHA256SUMS" "$out/SHA256SUMS.bundle" "$out/image-digest")
run gh release create "v$version" --verify-tag --title "v$version" --notes-file "$out/notes.md" "${files[@]}"
