#!/usr/bin/env bash
# in-debian.sh COMMAND...: runs a command in this folder in a container of Debian 12 with the Node.js of the Makefile, as the
# Dockerfile has it, whatever this machine runs. It needs Docker. Tools of scripts/go-tool.sh are taken from this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^NODE_VERSION := //p' Makefile)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/kube-ipvs-proxy
# Made in the container, build/ would belong to root, and later commands of this user could not write there.
mkdir -p "$tools" build
# privileged: tests make network namespaces and use the kernel's IPVS, if it has it. The folder belongs to another user.
exec docker run --rm --privileged --volume "$PWD:/src" --workdir /src --volume "$tools:/root/.cache/kube-ipvs-proxy" \
  --volume /lib/modules:/lib/modules:ro --env CI --env IMAGE_SOURCE \
  --env GIT_CONFIG_COUNT=1 --env GIT_CONFIG_KEY_0=safe.directory --env GIT_CONFIG_VALUE_0=/src \
  "node:$version-bookworm" "$@"
