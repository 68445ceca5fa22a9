#!/usr/bin/env bash
# test.sh [PATTERN...]: runs all tests: the host project, then each file of the projects kernel and traffic on a test kernel of
# its own, JOBS at a time (default: as many as there are processors). Unless tests or a kernel are selected, a few files run
# again in the other modes: what does not depend on the mode is not tested twice. The output of a file follows when
# it has ended; until then it is in build/test/logs. With IPTABLES=nft, the kernel has nf_tables, and plain iptables is
# iptables-nft. The last line has the totals of the reports in build/test/reports.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

reports=build/test/reports
logs=build/test/logs
jest=(node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js)

# run NAME ARGUMENT...: runs the command in the array `on`, then jest with the arguments. Until jest has written the report, it is
# empty, which counts as a failure.
run() {
  local report=$reports/$1.json
  : >"$report"
  shift
  "${on[@]}" "${jest[@]}" --json --outputFile="$report" --passWithNoTests "$@"
}

# --file MODE FILE: called by xargs below.
if [ "${1:-}" = --file ]; then
  mode=$2
  file=$3
  folder=${file%/*}
  name=${folder##*/}-$(basename "$file" .test.ts)
  on=(env KERNEL_TIMEOUT="${KERNEL_TIMEOUT:-2400}" lab/kernel/run.sh)
  if [ "$mode" = nftables ]; then
    name=nftables-$name
    on=(env TEST_MODE=nftables KERNEL=uml-nft "${on[@]:1}")
  elif [ "$mode" = userspace ]; then
    name=userspace-$name
    on=(env TEST_MODE=userspace KERNEL="${KERNEL:-uml-nft}" "${on[@]:1}")
  elif [ "$mode" = iptables ]; then
    name=iptables-$name
    on=(env TEST_MODE=iptables "${on[@]:1}")
  fi
  # The folders of temporary files of a test kernel are empty: what is compiled once serves all.
  run "$name" --cacheDirectory=build/test/jest-cache --selectProjects kernel traffic --runInBand \
    --runTestsByPath "$file" >"$logs/$name.log" 2>&1
  status=$?
  flock "$logs" cat "$logs/$name.log"
  exit $status
fi

rm -rf "$reports" "$logs"
mkdir -p "$reports" "$logs"
if [ -n "${IPTABLES:-}" ]; then export TEST_IPTABLES=$IPTABLES; fi
if [ "${IPTABLES:-}" = nft ]; then export KERNEL=${KERNEL:-uml-nft}; fi

# What runs in iptables mode, too, with the legacy variant; and in nftables and userspace mode, whose kernel is built, unless it
# is there, while other tests run.
in_iptables=
in_nftables=
in_userspace='/traffic/userspace[^/]*\.test\.ts$'
only_userspace=$in_userspace
if [ $# -eq 0 ] && [ -z "${KERNEL:-}" ] && [ "$(uname -m)" = x86_64 ]; then
  in_iptables='/traffic/(scenarios|history|large-datagrams|local-node-ports|previews|source-ranges|udp-clean-up)\.test\.ts$'
  in_nftables='/traffic/(scenarios|change-of-mode|external-addresses|history|large-datagrams|local-node-ports|nft-round-trip|previews|source-ranges|udp-clean-up)\.test\.ts$'
  in_userspace="$in_userspace|/traffic/scenarios\.test\.ts$"
  KERNEL=uml-nft lab/kernel/run.sh true >"$logs/kernel-with-nf_tables.log" 2>&1 &
fi

status=0
on=()
# The option takes all words after it.
run host "$@" --selectProjects host || status=1
wait

# Not among all tests: it takes minutes on a test kernel.
by_hand='/traffic/userspace-hostile\.test\.ts$'

# jobs_in MODE [GREP_OPTION...] PATTERN: the mode and the file of each job, in a line each.
jobs_in() {
  local file
  grep "${@:2}" <<<"$files" | grep . | while read -r file; do printf '%s\n%s\n' "$1" "$file"; done
}
# jest also says how many projects it runs.
if files=$("${jest[@]}" --selectProjects kernel traffic --listTests "$@" | { grep ^/ || true; }); then
  if [ $# -eq 0 ]; then files=$(grep -vE "$by_hand" <<<"$files"); fi
  # The longest first, so that none runs alone at the end.
  longest='/(faults|linux-kernel|scenarios|matrix)\.test\.ts$'
  {
    jobs_in ipvs -E "$longest"
    if [ -n "$in_nftables" ]; then jobs_in nftables -E "$in_nftables"; fi
    if [ -n "$in_iptables" ]; then jobs_in iptables -E "$in_iptables"; fi
    jobs_in userspace -E "$in_userspace"
    jobs_in ipvs -vE "$longest|$only_userspace"
  } | xargs --no-run-if-empty --delimiter='\n' --max-procs="${JOBS:-$(nproc)}" --max-args=2 scripts/test.sh --file || status=1
else
  status=1
fi
node scripts/count.ts "$reports"/*.json || status=1
exit $status
