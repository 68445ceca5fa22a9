#!/usr/bin/env bash
# Runs all tests: first the host project, then the kernel and traffic projects in parallel, each on its own test kernel
# (User-Mode Linux has one CPU). The last line has the totals.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
mkdir -p build/test

jest=(node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js)
reports=()
status=0
# run PROJECT COMMAND...: runs a project's tests with a command that ends with jest's.
run() {
  local project=$1
  shift
  "$@" --selectProjects "$project" --json --outputFile="build/test/$project.json" --passWithNoTests
}
for project in host kernel traffic; do reports+=("build/test/$project.json"); done
rm -f "${reports[@]}"

run host "${jest[@]}" "$@" || status=1
echo "the kernel project runs in parallel with the traffic project; its output follows at the end (until then: build/test/kernel.log)"
run kernel test/kernel/run.sh "${jest[@]}" --runInBand "$@" >build/test/kernel.log 2>&1 &
kernel=$!
run traffic test/kernel/run.sh "${jest[@]}" --runInBand "$@" || status=1
wait "$kernel" || status=1
cat build/test/kernel.log
node scripts/count.ts "${reports[@]}" || status=1
exit $status
