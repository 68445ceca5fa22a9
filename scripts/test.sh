#!/usr/bin/env bash
# Runs every test: the host project here, the kernel project where there is IPVS; ends with the sum of both.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/test

jest=(node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js)
status=0
"${jest[@]}" --selectProjects host --json --outputFile=build/test/host.json --passWithNoTests "$@" || status=1
test/kernel/run.sh "${jest[@]}" --selectProjects kernel --runInBand --json --outputFile=build/test/kernel.json --passWithNoTests "$@" || status=1
node scripts/count.ts build/test/host.json build/test/kernel.json || status=1
exit $status
