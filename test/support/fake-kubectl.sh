#!/usr/bin/env bash
# A kubectl whose cluster is the folder of this program. It records its arguments in the file asked. Nodes are the files in
# nodes/, whose content is the label service-proxy. Each has a Pod of the proxy that its label selects.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
if [ "$1" = --context ]; then shift 2; fi
if [ "$1" = --namespace ]; then shift 2; fi
printf '%s\n' "$*" >>"$here/asked"

answer() {
  if [ -e "$here/$1" ]; then cat "$here/$1"; fi
}

pods() {
  for node in "$here"/nodes/*; do
    name=$(basename "$node")
    if [ -s "$node" ]; then
      if [ -e "$here/daemonset/kube-ipvs-proxy" ]; then
        echo "kube-ipvs-proxy-of-$name|$name|$([ -e "$here/broken" ] && echo false || echo true)|0|DaemonSet|"
      fi
    elif [ -e "$here/daemonset/kube-proxy" ]; then
      echo "kube-proxy-of-$name|$name|true|3|DaemonSet|"
    elif [ -e "$here/static" ]; then
      echo "kube-proxy-$name|$name|true|3|Node|"
    fi
    if [ -e "$here/daemonset/kube-ipvs-proxy-shadow" ]; then echo "kube-ipvs-proxy-shadow-of-$name|$name|true|0|DaemonSet|"; fi
  done
  echo "coredns-1|node-1|true|0|ReplicaSet|"
}

case "$*" in
  'get --raw /version') [ -e "$here/nodes" ] ;;
  'get --raw /api/v1/nodes/'*)
    if [ -e "$here/health" ]; then cat "$here/health" >&2 && exit 1; fi
    echo '{}' ;;
  'get nodes --output go-template={{range .items}}node '*) answer providers ;;
  'get nodes '*)
    for node in "$here"/nodes/*; do
      echo "$(basename "$node")|linux|$(cat "$here/kernel")|$(cat "$here/kubelet")|True|$(cat "$node")"
    done ;;
  'get pods --output go-template={{range .items}}Pod '*) answer pods ;;
  'get pods --selector k8s-app='*' --field-selector '*)
    pods | sed -n "s#^\(${4#k8s-app=}-of-${6#spec.nodeName=}\)|.*#pod/\1#p" ;;
  # All Pods are gone by then.
  'get pods --selector '*) ;;
  'get pods '*) pods ;;
  'get daemonset '*' --ignore-not-found --output name')
    if [ -e "$here/daemonset/$3" ]; then echo "daemonset.apps/$3"; fi ;;
  'get daemonset kube-proxy '*configMap*) answer daemonset/kube-proxy ;;
  'get daemonset kube-ipvs-proxy '*configMap*) answer our-config-maps ;;
  'get daemonset kube-proxy '*nodeSelectorTerms*) answer terms ;;
  'get daemonset kube-proxy --output jsonpath={.spec.template.spec.nodeSelector}') answer selector ;;
  'get daemonset kube-proxy '*command*) answer flags ;;
  'get daemonset kube-ipvs-proxy '*nodeSelector*) answer daemonset/kube-ipvs-proxy ;;
  'get pod '*command*) answer flags ;;
  'get configmap '*' --ignore-not-found --output name')
    if [ -e "$here/configmap/$3" ]; then echo "configmap/$3"; fi ;;
  'get configmap '*)
    key=$(sed -n -e 's/.*index .data "\([^"]*\)".*/\1/p' -e 's/.*{{ \.data\.\([a-z]*\) }}.*/\1/p' <<<"$*")
    answer "configmap/$3/$key" ;;
  'get daemonsets,deployments '*) answer workloads ;;
  'get namespace '*) echo "namespace kube-system enforce=$(answer enforce)" ;;
  'get customresourcedefinitions '*) answer crds ;;
  'get felixconfigurations'*) answer felix ;;
  'get installations'*) answer installation ;;
  'get prometheusrules'*) answer rules ;;
  'get service kube-dns '*) echo '10.96.0.10 ' ;;
  'exec kube-ipvs-proxy-shadow-of-'*' -- kube-ipvs-proxy diff')
    answer "diff/${2#kube-ipvs-proxy-shadow-of-}"
    exit 1 ;;
  'exec pod/'*' -- kube-ipvs-proxy '*) echo "the answer of ${2#pod/}" ;;
  'exec '*' -- sh -c '*)
    if [ -e "$here/no-shell" ]; then echo 'exec: "sh": executable file not found in $PATH' >&2 && exit 126; fi
    answer "facts" ;;
  'run kube-ipvs-proxy-check-'*)
    printf '%s' "${@: -1}" >"$here/overrides"
    answer "facts" ;;
  'label node '*)
    if [[ $4 == *- ]]; then : >"$here/nodes/$3"; else echo "${4#*=}" >"$here/nodes/$3"; fi ;;
  'patch daemonset kube-proxy '*) ;;
  'rollout status '*) ;;
  'logs '*) echo 'the log of the Pod' ;;
  kustomize*)
    rm -rf "$here/built"
    cp -r "$2" "$here/built"
    echo built ;;
  'apply --filename '*)
    name=kube-ipvs-proxy
    if grep -q overlays/shadow "$here/built/kustomization.yaml"; then name=kube-ipvs-proxy-shadow; fi
    echo kube-ipvs-proxy >"$here/daemonset/$name" ;;
  'delete daemonset '*) rm -f "$here/daemonset/$3" ;;
  'delete '*) ;;
  *)
    echo "the fake does not know: $*" >&2
    exit 64 ;;
esac
