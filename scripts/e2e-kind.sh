#!/usr/bin/env bash
# e2e-kind.sh --kubernetes=v1.35.0 --family=ipv4|ipv6|dual --overlay=privileged|restricted --out=FOLDER [--focus=REGEX] [--dry-run]
# Makes a kind cluster without kube-proxy, with the image of `make image` on its nodes, and runs upstream's specs against it.
# Then it removes the cluster. It needs Docker, Go, kubectl, and ip_vs in this machine's kernel. --dry-run prints the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kubernetes='' family=ipv4 overlay=privileged out='' focus='' dry_run=
for argument in "$@"; do
  value=${argument#*=}
  case $argument in
    --kubernetes=*) kubernetes=$value ;;
    --family=*) family=$value ;;
    --overlay=*) overlay=$value ;;
    --out=*) out=$value ;;
    --focus=*) focus=$value ;;
    --dry-run) dry_run=yes ;;
    *) echo "e2e-kind.sh: unknown argument: $argument" >&2; exit 2 ;;
  esac
done
for name in kubernetes out; do
  if [ -z "${!name}" ]; then echo "e2e-kind.sh: --$name is missing" >&2; exit 2; fi
done
if ! [[ $family =~ ^(ipv4|ipv6|dual)$ ]]; then echo "e2e-kind.sh: no such family: $family" >&2; exit 2; fi
if ! [[ $overlay =~ ^(privileged|restricted)$ ]]; then echo "e2e-kind.sh: no such overlay: $overlay" >&2; exit 2; fi

run() {
  printf '+ %s\n' "$*"
  if [ -z "$dry_run" ]; then "$@"; fi
}

cluster=kube-ipvs-proxy-e2e
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "${TMPDIR:-/tmp}/e2e-kind.XXXXXX")
kind=kind
if [ -z "$dry_run" ]; then kind=$(scripts/go-tool.sh kind); fi

finish() {
  run "$kind" export logs --name "$cluster" "$out/nodes" || true
  run "$kind" delete cluster --name "$cluster" || true
  rm -rf "$work"
}
trap finish EXIT

# ip_vs must be in this machine's kernel, which the nodes use.
run sudo modprobe -a ip_vs ip_vs_rr nf_conntrack dummy
cat >"$work/cluster.yaml" <<END
apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
networking:
  ipFamily: $family
  kubeProxyMode: none
nodes:
  - role: control-plane
  - role: worker
  - role: worker
END
# Nodes become Ready after the service proxy runs, because kind's CNI reaches the API server by its Service.
run "$kind" create cluster --name "$cluster" --config "$work/cluster.yaml" --image "kindest/node:$kubernetes" --kubeconfig "$work/kubeconfig"
run "$kind" load image-archive build/image.tar --name "$cluster"
export KUBECONFIG=$work/kubeconfig
run manifests/kind/replace-kube-proxy.sh --context "kind-$cluster" --overlay "$overlay"
run kubectl wait --for=condition=Ready nodes --all --timeout=5m

# Upstream's programs of this version, checked by upstream's checksums.
site=https://dl.k8s.io/$kubernetes
for archive in kubernetes-test-linux-amd64 kubernetes-client-linux-amd64; do
  run curl --fail --silent --show-error --location --output "$work/$archive.tar.gz" "$site/$archive.tar.gz"
  run curl --fail --silent --show-error --location --output "$work/$archive.sha256" "$site/$archive.tar.gz.sha256"
  if [ -z "$dry_run" ]; then
    echo "$(cat "$work/$archive.sha256")  $work/$archive.tar.gz" | sha256sum --check
    tar --extract --file "$work/$archive.tar.gz" --directory "$work" --strip-components=3 --wildcards 'kubernetes/*/bin/*'
  fi
done
run lab/cluster/e2e/run.sh --bin="$work" --kubeconfig="$work/kubeconfig" --out="$out" --procs=4 --nodes=3 --focus="$focus"
