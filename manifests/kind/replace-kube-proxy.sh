#!/usr/bin/env bash
# replace-kube-proxy.sh [--context NAME] [--overlay privileged|restricted] [--image IMAGE] [--undo] [--dry-run]
#
# Replaces kube-proxy by kube-ipvs-proxy on all nodes of a kubeadm or kind cluster, with kube-proxy's configuration;
# --undo reverts this. kube-proxy's DaemonSet and ConfigMap stay, with a node selector that matches no node. The kernel
# keeps forwarding meanwhile. For test clusters; docs/migrate.md migrates node by node.
#
#   --context   of kubectl; kind-kube-ipvs-proxy by default
#   --overlay   its privileges; privileged by default
#   --image     instead of the image in the manifests; with kind: `kind load docker-image IMAGE` first
#   --dry-run   prints the commands that change something, and runs only those that read
set -euo pipefail

context=kind-kube-ipvs-proxy
overlay=privileged
image=
undo=
dry_run=
# No node has this label.
nowhere=kube-ipvs-proxy-replaced-it
manifests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

fail() {
  printf 'replace-kube-proxy: %s\n' "$*" >&2
  exit 1
}

step() {
  printf '\n=== %s\n' "$*"
}

# Runs a command that only reads.
ask() {
  kubectl --context "$context" --namespace kube-system "$@"
}

# Prints a command, then runs it.
change() {
  printf '+ kubectl --context %q --namespace kube-system' "$context"
  printf ' %s' "${@@Q}"
  printf '\n'
  if [ -z "$dry_run" ]; then ask "$@"; fi
}

value_of() {
  if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value"; fi
  printf '%s' "$2"
}

while [ $# -gt 0 ]; do
  case $1 in
    --context) context=$(value_of "$@"); shift 2 ;;
    --overlay) overlay=$(value_of "$@"); shift 2 ;;
    --image) image=$(value_of "$@"); shift 2 ;;
    --undo) undo=yes; shift ;;
    --dry-run) dry_run=yes; shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument: $1 (--help lists them all)" ;;
  esac
done

case $overlay in
  privileged | restricted) ;;
  *) fail "--overlay is privileged or restricted, not: $overlay" ;;
esac
if ! [[ $image =~ ^[A-Za-z0-9._/:@-]*$ ]]; then fail "this is no name of an image: $image"; fi
command -v kubectl >/dev/null || fail "kubectl is not installed"
ask get --raw /version >/dev/null || fail "no cluster answers in context $context: see kubectl config get-contexts"

exists() {
  [ -n "$(ask get "$1" "$2" --ignore-not-found --output name)" ]
}

# Prints a file of kube-proxy's ConfigMap.
file_of_kube_proxy() {
  ask get configmap kube-proxy --output "go-template={{ index .data \"$1\" }}"
}

wait_until_gone() {
  if [ -n "$dry_run" ]; then return; fi
  for _ in {1..60}; do
    if [ -z "$(ask get pods --selector "$1" --output name)" ]; then return; fi
    sleep 2
  done
  fail "Pods with $1 are still there after two minutes"
}

if [ -n "$undo" ]; then
  step 'kube-ipvs-proxy is taken away; what it wrote stays in force'
  change delete daemonset kube-ipvs-proxy --ignore-not-found
  wait_until_gone k8s-app=kube-ipvs-proxy
  if exists daemonset kube-proxy; then
    step 'kube-proxy runs on every node again, and adopts what is there'
    change patch daemonset kube-proxy --type=merge \
      --patch "{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"$nowhere\":null}}}}}"
    change rollout status daemonset/kube-proxy --timeout=180s
  else
    echo 'This cluster has no kube-proxy to go back to: Services work as they are, and change no more.'
  fi
  step 'Its account and role are removed'
  change delete clusterrolebinding,clusterrole,serviceaccount kube-ipvs-proxy --ignore-not-found
  change delete configmap --selector app.kubernetes.io/name=kube-ipvs-proxy --ignore-not-found
  exit 0
fi

step 'What there is'
work=$(mktemp -d "${TMPDIR:-/tmp}/kube-ipvs-proxy.XXXXXX")
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd -P)
if exists daemonset kube-proxy; then
  file_of_kube_proxy config.conf >"$work/kube-proxy.conf"
  mode=$(sed -n 's/^mode: *"\{0,1\}\([a-z]*\)"\{0,1\} *$/\1/p' "$work/kube-proxy.conf")
  if [ "$mode" = nftables ]; then
    fail "kube-proxy runs in mode nftables: migrate node by node (docs/migrate.md), because with --undo it would flush IPVS before it serves"
  fi
  # Our kubeconfig has another path; hard fail prevents two proxies on one node.
  sed -e 's|^\( *kubeconfig:\).*|\1 /etc/kube-ipvs-proxy/kubeconfig.conf|' \
    -e '/^mode:/d' -e '/^bindAddressHardFail:/d' "$work/kube-proxy.conf" >"$work/config.conf"
  # The last line may lack a newline.
  printf '\nmode: ipvs\nbindAddressHardFail: true\n' >>"$work/config.conf"
  rm "$work/kube-proxy.conf"
  echo "kube-proxy in ${mode:-iptables (by default)} mode; its configuration is taken over, with mode ipvs"
else
  cp "$manifests/kind/config.conf" "$work/config.conf"
  echo "no kube-proxy; the configuration is manifests/kind/config.conf"
fi
server=$(kubectl --context "$context" --namespace kube-public get configmap cluster-info \
  --output 'go-template={{ .data.kubeconfig }}' | sed -n 's/^ *server: *//p')
if ! [[ $server =~ ^https://[][A-Za-z0-9.:_-]+$ ]]; then
  fail "ConfigMap kube-public/cluster-info names no API server: is this a cluster that kubeadm or kind made?"
fi
echo "API server: $server"
sed "s|^\( *server:\).*|\1 $server|" "$manifests/base/kubeconfig.conf" >"$work/kubeconfig.conf"

{
  printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: kube-system\n'
  printf 'resources:\n  - %s\n' "$(realpath --relative-to="$work" "$manifests/overlays/$overlay")"
  printf 'configMapGenerator:\n  - name: kube-ipvs-proxy\n    behavior: merge\n    files: [config.conf, kubeconfig.conf]\n'
  if [ -n "$image" ]; then
    # A colon before the last slash precedes a registry's port.
    if [[ $image == *@* ]]; then
      name=${image%%@*} key=digest value=${image#*@}
    elif [[ $image =~ :[^/]+$ ]]; then
      name=${image%:*} key=newTag value=${image##*:}
    else
      name=$image key=newTag value=latest
    fi
    printf 'images:\n  - name: kube-ipvs-proxy\n    newName: "%s"\n    %s: "%s"\n' "$name" "$key" "$value"
  fi
} >"$work/kustomization.yaml"
kubectl kustomize "$work" >"$work/all.yaml"

if exists daemonset kube-proxy; then
  step 'kube-proxy is told to run on no node; what it wrote stays in force'
  change patch daemonset kube-proxy --type=merge \
    --patch "{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"$nowhere\":\"true\"}}}}}"
  wait_until_gone k8s-app=kube-proxy
fi

step 'kube-ipvs-proxy takes over'
change apply --filename "$work/all.yaml"
change rollout status daemonset/kube-ipvs-proxy --timeout=180s

step 'Look for yourself'
cat <<END
kubectl --context $context -n kube-system get pods -l k8s-app=kube-ipvs-proxy -o wide
kubectl --context $context -n kube-system logs -l k8s-app=kube-ipvs-proxy --tail=20
docker exec kube-ipvs-proxy-worker curl -s http://127.0.0.1:10249/proxyMode     # on a node of the kind cluster
docker exec kube-ipvs-proxy-worker cat /proc/net/ip_vs
$0 --context $context --undo                                                    # back again
END
