#!/usr/bin/env bash
# build.sh FOLDER: builds the kernel of the nodes from Debian's source package: User-Mode Linux with nf_tables, which
# Debian's own build lacks, and with a larger stack (options). FOLDER gets linux and modules/RELEASE, complete or not at all.
# Waits for another that builds the same. The log is FOLDER.log.
set -euo pipefail
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

options=$(dirname "$(realpath "$0")")/options
folder=$1
sources=(/usr/src/linux-source-*.tar.xz)
source=${sources[-1]}
if [ ! -e "$source" ]; then
  echo "build.sh: no source in $source, run: scripts/packages.sh cluster" >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
exec {lock}>"$folder.lock"
flock "$lock"
if [ -e "$folder" ]; then exit; fi
exec >"$folder.log" 2> >(tee -a "$folder.log" >&2)
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
tar --extract --xz --file "$source" --directory "$work" --strip-components=1
cd "$work"

{
  linux.uml --showconfig | sed 's/^\(CONFIG_.*\)=m$/# \1 is not set/'
  sed -n 's/^\([A-Z0-9_]*=.*\)/CONFIG_\1/p' "$options"
} >.config
make ARCH=um olddefconfig
while IFS='=' read -r name value; do
  if [ "$(scripts/config --state "$name" | sed 's/undef/n/')" != "$value" ]; then
    echo "build.sh: this source does not let $name be $value" >&2
    exit 1
  fi
done < <(grep -E '^[A-Z0-9_]+=' "$options")

make ARCH=um -j"$(nproc)" linux modules
make ARCH=um INSTALL_MOD_PATH="$work/installed" INSTALL_MOD_STRIP=1 modules_install
mkdir result
strip -o result/linux linux
mv installed/lib/modules result/modules
rm -f result/modules/*/{build,source}
mv result "$folder"
