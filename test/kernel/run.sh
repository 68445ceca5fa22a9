#!/usr/bin/env bash
# run.sh COMMAND [ARGUMENT...]: runs the command in the project's root on a kernel with IPVS; exits with its status.
#
# Which kernel is found by probing and said on stderr in one line:
#   native  this machine's kernel has ip_vs and dummy and we are root: new network, mount and process namespaces;
#   uml     otherwise: User-Mode Linux, a Linux kernel as an ordinary process (no root, no KVM), with this machine's
#           file tree as its root. The user who runs it is root inside, but files keep that user's rights.
# It never skips: with no kernel to be had it fails and says why. All processes of the command end with it.
#
# Settings:
#   KERNEL          native | uml, instead of probing (qemu is known, but not built: it fails and says so)
#   KERNEL_TIMEOUT  seconds until everything is killed and the status is 124 (default 4500)
#   KERNEL_MEMORY   memory of the booted kernel (default 3G)
#   KERNEL_ENV      names of further variables to pass, separated by spaces
# The command sees only: PATH, the variables in `passed` below, those named TEST_*, BENCH_*, DEMO_*, and KERNEL_USED
# (native or uml). /tmp and /run are its own, empty and in memory; there is no network but lo, and no stdin.
set -euo pipefail

passed=(CI FILTER SEED HOME USER LANG LC_ALL TZ NODE_OPTIONS NO_COLOR FORCE_COLOR)
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
machine=$project/test/kernel/machine
timeout=${KERNEL_TIMEOUT:-4500}
memory=${KERNEL_MEMORY:-3G}

fail() {
  echo "test kernel: $*" >&2
  exit 125
}
if [ $# -eq 0 ]; then fail "usage: test/kernel/run.sh COMMAND [ARGUMENT...]"; fi
[[ $timeout =~ ^[1-9][0-9]*$ ]] || fail "KERNEL_TIMEOUT is not a number of seconds: $timeout"
[[ $memory =~ ^[1-9][0-9]*[MG]$ ]] || fail "KERNEL_MEMORY is not a size like 3G or 512M: $memory"

# shellcheck source=machine/native.sh
. "$machine/native.sh"
# shellcheck source=machine/uml.sh
. "$machine/uml.sh"
# shellcheck source=machine/qemu.sh
. "$machine/qemu.sh"

kernel=${KERNEL:-}
case $kernel in
  '')
    if without_native=$(native_missing); then
      kernel=native
    elif without_uml=$(uml_missing); then
      kernel=uml
    else
      fail "no kernel with IPVS: this machine's own will not do ($without_native), nor User-Mode Linux ($without_uml)"
    fi
    ;;
  native | uml | qemu)
    why=$("${kernel}_missing") || fail "KERNEL=$kernel is not possible here: $why"
    ;;
  *) fail "KERNEL is native, uml or qemu, not: $kernel" ;;
esac

# The job: what the inside reads, and where it leaves the exit status. Nothing of it travels on a command line.
job=$(mktemp -d "${TMPDIR:-/tmp}/kernel-job.XXXXXX")
job=$(cd "$job" && pwd -P)
group=
lifeline=
finish() {
  trap '' INT TERM HUP
  if [ -n "$group" ]; then
    kill -KILL -- "-$group" 2>/dev/null || true
    wait "$group" 2>/dev/null || true
  fi
  if [ -n "$lifeline" ]; then { echo over >&"$lifeline"; } 2>/dev/null || true; fi
  rm -rf "$job"
}
trap : PIPE
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

{
  names=(PATH "${passed[@]}")
  read -r -a more <<<"${KERNEL_ENV:-}"
  mapfile -t prefixed < <(compgen -e | grep -E '^(TEST|BENCH|DEMO)_' || true)
  for name in "${names[@]}" "${more[@]}" "${prefixed[@]}"; do
    if [ -n "${!name+set}" ]; then printf 'export %s=%q\n' "$name" "${!name}"; fi
  done
  printf 'export KERNEL_USED=%q\n' "$kernel"
} >"$job/environment"
{
  printf 'cd %q\n' "$project"
  printf '%q ' "$@"
  echo
} >"$job/command"

# The watcher outlives this script, whatever ends it: it kills the group after the timeout or when the pipe breaks.
exec {lifeline}> >(
  trap '' INT TERM HUP
  exec >/dev/null 2>&1
  read -r watched || exit 0
  answer=
  read -r -t "$timeout" answer || status=$?
  if [ "$answer" = over ]; then exit 0; fi
  if [ "${status:-0}" -gt 128 ]; then : >"$job/timed-out"; fi
  kill -KILL -- "-$watched"
  if [ "${status:-0}" -le 128 ]; then rm -rf "$job"; fi
)

# The command's output goes through a `cat` each: a booted kernel makes the descriptors it is given non-blocking
# and a terminal raw, and that must not happen to our caller's. Here 7 is the command's stdout, 8 its stderr.
exec 7> >(trap '' INT TERM HUP; exec cat {lifeline}>&-)
out=$!
exec 8> >(trap '' INT TERM HUP; exec cat >&2 {lifeline}>&- 7>&-)
err=$!

"${kernel}_start" </dev/null {lifeline}>&-
exec 7>&- 8>&-
echo "$group" >&"$lifeline"
wait "$group" 2>/dev/null || true
wait "$out" "$err" || true

if [ -e "$job/timed-out" ]; then
  echo "test kernel: killed after KERNEL_TIMEOUT=$timeout seconds" >&2
  exit 124
fi
if ! [ -s "$job/status" ]; then
  if [ -s "$job/console" ]; then tail -n 40 "$job/console" >&2; fi
  fail "the $kernel kernel ended before the command did"
fi
exit "$(cat "$job/status")"
