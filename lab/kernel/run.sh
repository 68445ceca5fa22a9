#!/usr/bin/env bash
# run.sh COMMAND [ARGUMENT...]: runs the command in the project's root on a kernel with IPVS; exits with its status.
#
# The first kernel of these that is possible is taken, and named on stderr in one line:
#   native  this machine's kernel has ip_vs and dummy and we are root: new network, mount and process namespaces;
#   uml     User-Mode Linux, a Linux kernel as an ordinary process (no root, no KVM), with this machine's file tree as its
#           root. The user who runs it is root inside, but files keep that user's rights. One CPU, no nf_tables;
#   qemu    Debian's kernel in an emulated machine (no KVM) with two CPUs, nf_tables, and the same file tree by 9p. It is the
#           slowest: a boot takes 20 s of processor time, not 2 as with uml. Its packages are installed, and the kernel is put
#           into ~/.cache/kube-ipvs-proxy (XDG_CACHE_HOME), when it is first needed; remove that folder to get a newer kernel.
# Only when asked for by name:
#   uml-nft like uml, but the kernel of the test cluster's nodes (lab/cluster/kernel), which has nf_tables. Its packages are
#           installed, and it is built into that cache, when it is first needed.
# A kernel that ends before the command has begun makes room for the next one; its console is kept in build/kernel.
# It never skips: with no kernel to be had it fails and says why. All processes of the command end with it.
#
# Settings:
#   KERNEL          native | uml | qemu | uml-nft: this one or none
#   KERNEL_TIMEOUT  seconds until everything is killed and the status is 124 (default 4500, times KERNEL_PATIENCE)
#   KERNEL_MEMORY   memory of the booted kernel (default 3G)
#   KERNEL_PATIENCE by how much the tests multiply their time limits (default 1, with qemu 5)
#   KERNEL_ENV      names of further variables to pass, separated by spaces
#   TEST_IPTABLES   nft | legacy: the variant of plain iptables (default: this machine's, or legacy where that one does not work)
# The command sees only: PATH, the variables in `passed` below, those named TEST_*, BENCH_*, DEMO_*, KERNEL_USED
# (native, uml, qemu or uml-nft) and KERNEL_PATIENCE. /tmp and /run are its own, empty and in memory; there is no network but lo, and no stdin.
set -euo pipefail

passed=(CI FILTER SEED HOME USER LANG LC_ALL TZ NODE_OPTIONS NO_COLOR FORCE_COLOR)
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
machine=$project/lab/kernel/machine
timeout=${KERNEL_TIMEOUT:-}
patience=${KERNEL_PATIENCE:-}
memory=${KERNEL_MEMORY:-3G}
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kube-ipvs-proxy
# The Node.js that the Makefile has installed for this project, if the machine's is too old.
for bin in "$project"/.node/node_modules/node-linux-*/bin; do
  if [ -x "$bin/node" ]; then PATH=$bin:$PATH; fi
done

fail() {
  echo "test kernel: $*" >&2
  exit 125
}
if [ $# -eq 0 ]; then fail "usage: lab/kernel/run.sh COMMAND [ARGUMENT...]"; fi
[[ ${timeout:-1} =~ ^[1-9][0-9]*$ ]] || fail "KERNEL_TIMEOUT is not a number of seconds: $timeout"
[[ ${patience:-1} =~ ^[1-9][0-9]*$ ]] || fail "KERNEL_PATIENCE is not a number: $patience"
[[ $memory =~ ^[1-9][0-9]*[MG]$ ]] || fail "KERNEL_MEMORY is not a size like 3G or 512M: $memory"
[[ ${TEST_IPTABLES:-nft} =~ ^(nft|legacy)$ ]] || fail "TEST_IPTABLES is nft or legacy, not: $TEST_IPTABLES"

# packages_missing GROUP: installs a group of scripts/packages.sh, for kernels that x86-64 machines alone have. Says why that is
# not possible, and fails.
packages_missing() {
  local said
  if [ "$(uname -m)" != x86_64 ]; then
    echo "it needs an x86-64 machine"
    return 1
  fi
  if ! said=$("$project/scripts/packages.sh" "$1" 2>&1); then
    echo "its packages cannot be installed: ${said##*$'\n'}"
    return 1
  fi
}

# shellcheck source=machine/native.sh
. "$machine/native.sh"
# shellcheck source=machine/uml.sh
. "$machine/uml.sh"
# shellcheck source=machine/uml-nft.sh
. "$machine/uml-nft.sh"
# shellcheck source=machine/qemu.sh
. "$machine/qemu.sh"

declare -A titles=([native]="this machine's own kernel" [uml]="User-Mode Linux" [qemu]="QEMU" [uml-nft]="User-Mode Linux with nf_tables")
case ${KERNEL:-} in
  '') kernels=(native uml qemu) ;;
  native | uml | qemu | uml-nft) kernels=("$KERNEL") ;;
  *) fail "KERNEL is native, uml, qemu or uml-nft, not: $KERNEL" ;;
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
  let_go
  rm -rf "$job"
}
let_go() {
  if [ -n "$lifeline" ]; then { echo over >&"$lifeline"; } 2>/dev/null || true; fi
}
trap : PIPE
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

write_environment() {
  local name names more prefixed
  names=(PATH "${passed[@]}")
  read -r -a more <<<"${KERNEL_ENV:-}"
  mapfile -t prefixed < <(compgen -e | grep -E '^(TEST|BENCH|DEMO)_' || true)
  for name in "${names[@]}" "${more[@]}" "${prefixed[@]}"; do
    if [ -n "${!name+set}" ]; then printf 'export %s=%q\n' "$name" "${!name}"; fi
  done
  printf 'export KERNEL_USED=%q KERNEL_PATIENCE=%q\n' "$1" "$2"
}
{
  printf 'cd %q\n' "$project"
  printf '%q ' "$@"
  echo
} >"$job/command"

# Runs the job on a kernel to its end.
run_on() {
  local slower=${patience:-1}
  if [ "$1" = qemu ]; then slower=${patience:-5}; fi
  write_environment "$1" "$slower" >"$job/environment"
  limit=${timeout:-$((4500 * slower))}

  # The watcher outlives this script, whatever ends it: it kills the group after the timeout or when the pipe breaks.
  exec {lifeline}> >(
    trap '' INT TERM HUP
    exec >/dev/null 2>&1
    read -r watched || exit 0
    answer=
    read -r -t "$limit" answer || status=$?
    if [ "$answer" = over ]; then exit 0; fi
    if [ "${status:-0}" -gt 128 ]; then : >"$job/timed-out"; fi
    kill -KILL -- "-$watched"
    if [ "${status:-0}" -le 128 ]; then rm -rf "$job"; fi
  )

  # The command's output goes through a `cat` each: a booted kernel makes the descriptors it is given non-blocking
  # and a terminal raw, and that must not happen to our caller's. Here 7 is the command's stdout, 8 its stderr.
  local out err
  exec 7> >(trap '' INT TERM HUP; exec cat {lifeline}>&-)
  out=$!
  exec 8> >(trap '' INT TERM HUP; exec cat >&2 {lifeline}>&- 7>&-)
  err=$!

  if "$1_start" </dev/null {lifeline}>&-; then
    exec 7>&- 8>&-
    echo "$group" >&"$lifeline"
    wait "$group" 2>/dev/null || true
    wait "$out" "$err" || true
    kill -KILL -- "-$group" 2>/dev/null || true
    group=
    let_go
  fi
  exec 7>&- 8>&-
  exec {lifeline}>&-
  lifeline=
}

# What is known of a kernel that went wrong: where its console is kept, and its last words.
post_mortem() {
  local folder=$project/build/kernel words
  # What an emulator says, and what the kernel in it.
  if [ -e "$job/serial" ]; then cat "$job/serial" >>"$job/console"; fi
  if ! [ -s "$job/console" ]; then
    echo "it said nothing"
    return
  fi
  mkdir -p "$folder" 2>/dev/null || true
  if ! [ -w "$folder" ]; then folder=${TMPDIR:-/tmp}; fi
  cp "$job/console" "$folder/$1-console.txt"
  words=$(grep -a -o -m 1 'Kernel panic.*' "$job/console" || grep -a -v -e '^$' -e '^reboot: ' "$job/console" | tail -n 1)
  echo "its last words are \"$(tr -cd '[:print:]' <<<"$words")\", its console is in $folder/$1-console.txt"
}

refused=
for kernel in "${kernels[@]}"; do
  if why=$("${kernel}_missing"); then
    run_on "$kernel"
    if [ -e "$job/started" ] || [ -e "$job/timed-out" ]; then
      refused=
      break
    fi
    why="it ended before the command had begun: $(post_mortem "$kernel")"
    if [ "$kernel" != "${kernels[-1]}" ]; then echo "test kernel: ${titles[$kernel]}: $why; trying the next" >&2; fi
  fi
  refused+="${refused:+; }${titles[$kernel]}: $why"
done
if [ -n "$refused" ]; then
  if [ -n "${KERNEL:-}" ]; then fail "KERNEL=$KERNEL is not possible here: $why; unset KERNEL to have the others tried"; fi
  fail "no kernel with IPVS is to be had ($refused); try as root on a machine where modprobe finds ip_vs and dummy"
fi

if [ -e "$job/timed-out" ]; then
  echo "test kernel: killed after KERNEL_TIMEOUT=$limit seconds" >&2
  exit 124
fi
if ! [ -s "$job/status" ]; then
  fail "${titles[$kernel]} ended before the command did: $(post_mortem "$kernel")"
fi
exit "$(cat "$job/status")"
