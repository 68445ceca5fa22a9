#!/usr/bin/env bash
# go-tool.sh NAME: prints the path of a tool that is built from Go modules, once for all checkouts of this machine. Without
# Go, it exits with status 3. Go checks the module against its public database of checksums.
set -euo pipefail
declare -A modules=(
  [helm]=helm.sh/helm/v3/cmd/helm@v3.20.2
  [kubeconform]=github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
  [actionlint]=github.com/rhysd/actionlint/cmd/actionlint@v1.7.11
)
name=${1:?usage: go-tool.sh NAME}
module=${modules[$name]:?no such tool}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/kube-ipvs-proxy/tools/${module##*@}
if ! [ -x "$folder/$name" ]; then
  export PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || { echo "go-tool.sh: $name is built by Go, which is not in PATH" >&2; exit 3; }
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/.build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # The lowest priority: a build takes minutes of all cores.
  GOBIN=$work CGO_ENABLED=0 GOFLAGS=-trimpath chrt -i 0 go install -ldflags='-s -w' "$module" >&2
  # Complete or absent: other processes may look for it.
  mv "$work/$name" "$folder/$name"
fi
echo "$folder/$name"
