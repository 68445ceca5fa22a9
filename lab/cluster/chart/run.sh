#!/usr/bin/env bash
# run.sh --helm=PROGRAM --kubectl=PROGRAM --kubeconfig=FILE --node=ADDRESS [--node=ADDRESS] [--netns=PATH] [--chart=FOLDER] [--set=name=value]
# Installs the chart in a cluster without service proxy, tests it, upgrades it with another scheduler, rolls it back and
# removes it. Meanwhile, it asks a NodePort of each node 20 times a second. It exits with 0 if every step was right and no
# request failed. The nodes must have the image of the chart.
set -euo pipefail

helm='' kubectl='' kubeconfig='' netns='' chart=charts/kube-ipvs-proxy nodes=() set=()
for argument in "$@"; do
  value=${argument#*=}
  case $argument in
    --helm=*) helm=$value ;;
    --kubectl=*) kubectl=$value ;;
    --kubeconfig=*) kubeconfig=$value ;;
    --netns=*) netns=$value ;;
    --chart=*) chart=$value ;;
    --node=*) nodes+=("$value") ;;
    --set=*) set+=(--set "$value") ;;
    *) echo "run.sh: unknown argument: $argument" >&2; exit 2 ;;
  esac
done
for name in helm kubectl kubeconfig nodes; do
  if [ -z "${!name}" ]; then echo "run.sh: --$name is missing" >&2; exit 2; fi
done

port=30581
work=$(mktemp -d "${TMPDIR:-/tmp}/chart.XXXXXX")
enter=()
if [ -n "$netns" ]; then enter=(nsenter "--net=$netns" --); fi
export KUBECONFIG=$kubeconfig HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work
h() { "${enter[@]}" "$helm" --namespace kube-system "$@"; }
k() { "${enter[@]}" "$kubectl" --namespace kube-system "$@"; }
step() { echo "=== $* ($SECONDS s)"; }
fail() { echo "run.sh: $*" >&2; exit 1; }

probes=()
finish() {
  # The probes end when their file is gone.
  rm -f "$work/go"
  if [ ${#probes[@]} -gt 0 ]; then wait "${probes[@]}" || true; fi
  k delete deployment,service chart-trial --ignore-not-found --wait=false >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

# The scheduler of the trial's virtual server on a node, as the kernel says.
scheduler() {
  k exec daemonset/kube-ipvs-proxy --container kube-ipvs-proxy -- /usr/bin/node -p \
    "fs.readFileSync('/proc/net/ip_vs', 'utf8').split('\n').find((line) => /:$(printf %04X "$port") /.test(line))" | awk '{ print $3 }'
}

expect_scheduler() {
  local found
  found=$(scheduler)
  [ "$found" = "$1" ] || fail "the virtual server of the NodePort has scheduler $found instead of $1"
}

probe() {
  local asked=0 failed=0
  while [ -e "$work/go" ]; do
    asked=$((asked + 1))
    if ! "${enter[@]}" curl --silent --show-error --fail --max-time 3 --output /dev/null "http://$1:$port/" 2>>"$work/errors-$2"; then
      failed=$((failed + 1))
      echo "$(date +%T) request $asked" >>"$work/errors-$2"
    fi
    sleep 0.05
  done
  echo "$asked $failed" >"$work/result-$2"
}

step 'install'
h install kube-ipvs-proxy "$chart" "${set[@]}" --wait --timeout 5m >"$work/notes" 2>&1 || { cat "$work/notes"; fail 'the installation failed'; }
image=$(k get daemonset kube-ipvs-proxy --output 'jsonpath={.spec.template.spec.containers[0].image}')
k apply --filename - <<END
apiVersion: apps/v1
kind: Deployment
metadata: { name: chart-trial }
spec:
  replicas: 2
  selector: { matchLabels: { app: chart-trial } }
  template:
    metadata: { labels: { app: chart-trial } }
    spec:
      containers:
        - name: web
          image: $image
          command: [/usr/bin/node, --eval, "require('http').createServer((_, r) => r.end('ok')).listen(8080)"]
          readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: chart-trial }
spec:
  type: NodePort
  selector: { app: chart-trial }
  ports: [{ port: 80, targetPort: 8080, nodePort: $port }]
END
k rollout status deployment/chart-trial --timeout 2m
expect_scheduler rr

step 'traffic and helm test'
touch "$work/go"
for at in "${!nodes[@]}"; do probe "${nodes[at]}" "$at" & probes+=($!); done
h test kube-ipvs-proxy --timeout 3m

step 'upgrade with the scheduler lc'
h upgrade kube-ipvs-proxy "$chart" --reuse-values --set config.ipvs.scheduler=lc --wait --timeout 5m >/dev/null
expect_scheduler lc

step 'roll back'
h rollback kube-ipvs-proxy 1 --wait --timeout 5m
expect_scheduler rr

step 'uninstall'
h uninstall kube-ipvs-proxy --wait --timeout 3m
left=$(k get daemonset,serviceaccount,configmap,clusterrole,clusterrolebinding --selector app.kubernetes.io/name=kube-ipvs-proxy --output name)
[ -z "$left" ] || fail "helm uninstall left $left"
# The kernel keeps forwarding.
sleep 5

step 'the traffic'
rm "$work/go"
wait "${probes[@]}"
probes=()
total=0
for at in "${!nodes[@]}"; do
  read -r asked failed <"$work/result-$at"
  echo "${nodes[at]}: $asked requests, $failed failed"
  total=$((total + failed))
  if [ "$asked" -lt 100 ]; then fail 'too few requests to mean something'; fi
  if [ "$failed" -gt 0 ]; then cat "$work/errors-$at"; fi
done
[ "$total" = 0 ] || fail "$total requests failed"
