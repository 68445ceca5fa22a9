#!/bin/sh
# Starts the daemon with the Node.js beside it. The options and the environment are those of the container image (lab/notes/memory.md).
# As kubectl-ipvs_proxy, a plugin of kubectl, it has the subcommands of `fleet`.
case $0 in *kubectl-ipvs_proxy) set -- fleet "$@" ;; esac
folder=$(dirname "$(readlink -f "$0")")/../lib/kube-ipvs-proxy
export MALLOC_ARENA_MAX=1
exec "$folder/node" --max-semi-space-size=2 --max-old-space-size=512 --use-openssl-ca "$folder/kube-ipvs-proxy.mjs" "$@"
