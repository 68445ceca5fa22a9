#!/usr/bin/env bash
# reproducible.sh [ARCH]: builds the image of the last commit in two folders and compares the digests. It prints the digest
# and exits with 0 if they are equal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
project=$PWD arch=${1:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT
GIT_COMMIT=$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export GIT_COMMIT SOURCE_DATE_EPOCH
quietly() {
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}
quietly make --no-print-directory deps
digests=()
# Names of different lengths: a path in a file would move the bytes behind it.
for folder in a another/folder; do
  mkdir -p "$work/$folder"
  git archive HEAD | tar --extract --directory "$work/$folder"
  # What npm installs is checked against the lock file, so it is not installed again.
  cp -a "$project/node_modules" "$work/$folder/"
  touch "$work/$folder/node_modules/.stamp"
  quietly make -C "$work/$folder" --no-print-directory image ${arch:+ARCH=$arch}
  read -r digest _ < <(tail -n 1 "$work/log")
  echo "$digest in $work/$folder"
  digests+=("$digest")
done
[ "${digests[0]}" = "${digests[1]}" ] || { echo "reproducible.sh: the two images differ" >&2; exit 1; }
