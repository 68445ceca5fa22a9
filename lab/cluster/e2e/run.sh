#!/usr/bin/env bash
# run.sh --bin=FOLDER --kubeconfig=FILE --out=FOLDER [--netns=PATH] [--focus=REGEX] [--procs=N] [--nodes=N] [--timeout=90m]
# Runs specs of Kubernetes' e2e.test against a cluster. It needs nothing else of this project, so it also runs against
# kind. --bin has e2e.test, ginkgo and kubectl. --focus selects names of specs after `[sig-network] `. The cluster is
# reached from the network namespace --netns, or from this one. After --timeout, the rest is not run. OUT gets junit.xml and log.txt. Exits with ginkgo's status.
set -euo pipefail

# What a service proxy takes part in, at least through its Services. Specs of LoadBalancers need a cluster that assigns
# addresses, so --focus must name them; almost all of them are slow.
groups='Services|Networking|Endpoints|EndpointSlice|Conntrack|HostPort|DNS|Connectivity|Proxy|KubeProxy|NoSNAT'
groups+='|Traffic Distribution|Topology Hints|Service CIDRs|ServiceCIDR|Service endpoints latency'
labels='!Serial && !Disruptive && !Flaky && ((!Slow && Feature: isEmpty) || Feature: consistsOf LoadBalancer)'

bin='' kubeconfig='' out='' netns='' focus="($groups)" procs=2 nodes=2 timeout=3h
for argument in "$@"; do
  value=${argument#*=}
  case $argument in
    --bin=*) bin=$value ;;
    --kubeconfig=*) kubeconfig=$value ;;
    --out=*) out=$value ;;
    --netns=*) netns=$value ;;
    --focus=*) focus=${value:-$focus} ;;
    --procs=*) procs=$value ;;
    --nodes=*) nodes=$value ;;
    --timeout=*) timeout=${value:-$timeout} ;;
    *)
      echo "run.sh: unknown argument: $argument" >&2
      exit 2
      ;;
  esac
done
for name in bin kubeconfig out; do
  if [ -z "${!name}" ]; then
    echo "run.sh: --$name is missing" >&2
    exit 2
  fi
done

enter=()
if [ -n "$netns" ]; then enter=(nsenter "--net=$netns" --); fi
mkdir -p "$out"
rm -f "$out/junit.xml"
# The constant seed makes the order of specs the same with each proxy.
"${enter[@]}" "$bin/ginkgo" --procs="$procs" --no-color --seed=1 --timeout="$timeout" \
  --focus="\[sig-network\] $focus" --label-filter="$labels" --output-dir="$out" --junit-report=junit.xml \
  "$bin/e2e.test" -- --kubeconfig="$kubeconfig" --kubectl-path="$bin/kubectl" --provider=local --num-nodes="$nodes" \
  --node-os-distro=custom --disable-log-dump >"$out/log.txt" 2>&1
