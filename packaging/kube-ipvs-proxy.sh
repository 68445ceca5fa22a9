#!/bin/sh
# Starts the daemon with the Node.js beside it. The options are those of the container image (lab/notes/memory.md).
folder=$(dirname "$(readlink -f "$0")")/../lib/kube-ipvs-proxy
exec "$folder/node" --max-semi-space-size=2 --max-old-space-size=512 --use-openssl-ca "$folder/kube-ipvs-proxy.mjs" "$@"
