#!/usr/bin/env bash
# promtool.sh: prints the path of promtool. It is unpacked from Debian's or Ubuntu's package `prometheus`, once for all checkouts of
# this machine; the package is not installed, because it would start a server. Its Go module cannot be built by `go install`.
# Without apt-get, it exits with status 3.
set -euo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/kube-ipvs-proxy/tools/promtool
if ! [ -x "$folder/promtool" ]; then
  command -v apt-get >/dev/null || { echo "promtool.sh: promtool is in the package prometheus, which takes apt-get" >&2; exit 3; }
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/.new.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  download() { apt-get -qq -o APT::Sandbox::User=root download prometheus >&2; }
  # A machine that has not asked the mirror for long has no index, or an old one.
  if ! download 2>/dev/null; then
    if [ "$(id -u)" = 0 ]; then apt-get -qq update >/dev/null 2>&1 || true; fi
    download
  fi
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract ./usr/bin/promtool
  # Complete or absent: other processes may look for it.
  mv usr/bin/promtool "$folder/promtool"
fi
echo "$folder/promtool"
