#!/usr/bin/env bash
# sanitize.sh address|thread ADDON: the addon's tests with ADDON, which was compiled for AddressSanitizer (with leaks) and
# UBSan, or for ThreadSanitizer. Node.js itself is not compiled for them, so only reports with a frame of the addon count.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
addon=build/native/netlink_socket.node
reports=build/sanitize/reports-$kind
plain=build/sanitize/plain.node

rm -rf "$reports"
mkdir -p "$reports"
case $kind in
  address)
    library=libasan.so
    export ASAN_OPTIONS=detect_leaks=1:exitcode=0:log_path=$PWD/$reports/report
    # A worker that is terminated during a transaction never settles its promise.
    echo leak:napi_create_promise >"$reports/suppressions"
    export LSAN_OPTIONS=suppressions=$PWD/$reports/suppressions:print_suppressions=0
    ;;
  thread)
    library=libtsan.so
    export TSAN_OPTIONS=exitcode=0:log_path=$PWD/$reports/report
    ;;
esac

# The program loads its addon from one place only.
cp -p "$addon" "$plain"
trap 'cp -p "$plain" "$addon"' EXIT
cp "$2" "$addon"
# ThreadSanitizer needs a fixed address layout.
LD_PRELOAD=$("${CXX:-g++}" -print-file-name=$library) setarch --addr-no-randomize \
  node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js \
  --selectProjects host --runInBand --testPathPatterns 'unit/netlink/(addon|connection|multicast|trace)'

# Reports are separated by empty lines and by lines of equal signs.
found=$(find "$reports" -name 'report.*' -exec awk 'BEGIN { RS = "(\n\n+Direct|\n\n+Indirect|\n=====+\n)" } /native\/[a-z_]+\.(cc|h):|netlink_socket\.node/' {} +)
if [ -n "$found" ]; then
  echo "$found"
  echo "the $kind sanitizer found faults of the addon, see above"
  exit 1
fi
echo "the $kind sanitizer found no faults of the addon"
