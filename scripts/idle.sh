#!/usr/bin/env bash
# idle.sh COMMAND [ARGUMENT...]: becomes the command, which gets only the processor time that all others leave.
set -euo pipefail
# A kernel with autogroups divides the time between sessions first. Here, and in a session of its own, this is the share.
if [ -w /proc/self/autogroup ]; then echo 19 >/proc/self/autogroup || true; fi
exec chrt --idle 0 "$@"
