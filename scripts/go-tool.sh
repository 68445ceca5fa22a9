#!/usr/bin/env bash
# go-tool.sh NAME...: prints the path of each tool. They are built from Go modules, once for all checkouts of this machine.
# Without Go, it exits with status 3. Go checks modules against its public database of checksums.
set -euo pipefail
declare -A modules=(
  [helm]=helm.sh/helm/v3/cmd/helm@v3.20.2
  [kustomize]=sigs.k8s.io/kustomize/kustomize/v5@v5.8.1
  [kind]=sigs.k8s.io/kind@v0.33.0
  [cosign]=github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5
  [actionlint]=github.com/rhysd/actionlint/cmd/actionlint@v1.7.11
)
path_of() {
  local name=$1 module=${modules[$1]:?no such tool}
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/kube-ipvs-proxy/tools/${module##*@} work
  if ! [ -x "$folder/$name" ]; then
    command -v go >/dev/null || { echo "go-tool.sh: $name is built by Go, which is not in PATH" >&2; exit 3; }
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/.build.XXXXXX")
    # The lowest priority: a build takes minutes of all cores.
    GOBIN=$work CGO_ENABLED=0 GOFLAGS=-trimpath chrt -i 0 go install -ldflags='-s -w' "$module" >&2
    # Complete or absent: other processes may look for it.
    mv "$work/$name" "$folder/$name"
    rmdir "$work"
  fi
  echo "$folder/$name"
}

export PATH=$PATH:/usr/local/go/bin
for name in "$@"; do path_of "$name"; done
