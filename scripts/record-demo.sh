#!/usr/bin/env bash
# record-demo.sh [CAST]: runs the demo in a recorder of terminals, and draws docs/demo.svg from the recording. With the file of an
# earlier recording, it only draws. `make demo-record` installs the two programs and runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."
cast=${1:-build/demo.cast}

if [ $# -eq 0 ]; then
  mkdir -p build
  # A demo whose checks failed is not drawn.
  command='lab/kernel/run.sh node lab/demo/demo.ts; echo "$?" >build/demo.status'
  asciinema rec --quiet --overwrite --cols=110 --rows=36 --idle-time-limit=2 --command="$command" "$cast" </dev/null
  [ "$(cat build/demo.status)" = 0 ] || { echo 'record-demo.sh: the demo failed; docs/demo.svg is as it was' >&2; exit 1; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
termtosvg render "$cast" "$work/demo.svg" --template=window_frame --loop-delay=5000
# Programs that ignore white-space of CSS keep the columns of tables, too.
sed '1s/<svg /<svg xml:space="preserve" /' "$work/demo.svg" >docs/demo.svg
