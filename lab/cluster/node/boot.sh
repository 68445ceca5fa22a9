#!/usr/bin/env bash
# boot.sh MEMORY TAP ARGUMENT...: becomes a node: User-Mode Linux with this machine's file tree as its root (read-only) and
# one interface, vec0, connected to the tap device. The arguments, NAME=VALUE, go to its command line; node/init.sh reads them.
# The kernel and its modules are in KERNEL_FOLDER.
set -euo pipefail
# Used by uml.sh.
# shellcheck disable=SC2034
{
  project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd -P)
  machine=$project/lab/kernel/machine
  memory=$1
}
tap=$2
shift 2
# Quotes keep spaces of paths together on the command line of a kernel.
settings=()
for setting in "$@"; do settings+=("${setting%%=*}=\"${setting#*=}\""); done
# shellcheck source=../../kernel/machine/uml.sh
. "$machine/uml.sh"

if ! why=$(uml_missing); then
  echo "User-Mode Linux is not possible: $why" >&2
  exit 1
fi
folder=$(uml_memory_folder)
uml_take_processor "$folder"
home=$(mktemp -d "${NODE_FOLDER:?}/uml.XXXXXX")
cd "$project"
TMPDIR=$folder HOME=$home LD_PRELOAD=$preload exec "${pinned[@]}" "${KERNEL_FOLDER:?}/linux" "mem=$memory" \
  rootfstype=hostfs rootflags=/ ro \
  "init=\"$project/lab/cluster/node/init.sh\"" "uml_dir=$home/" umid=node "vec0:transport=tap,ifname=$tap,depth=128,gro=1" \
  con=null con0=null,fd:1 quiet panic=-1 "NODE_FOLDER=\"$NODE_FOLDER\"" "KERNEL_FOLDER=\"$KERNEL_FOLDER\"" "${settings[@]}"
