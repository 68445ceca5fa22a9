#!/usr/bin/env bash
# fuzz.sh SECONDS [SEED]: plays random histories of faults on the kernel in memory until the time is over, HISTORIES (100) with
# each seed, from SEED (1) on. It ends with 1 at the first seed that fails; the output then has the command that plays the
# failed history again. `make fuzz` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-} seed=${2:-1}
if ! [[ $seconds =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]]; then
  echo 'usage: fuzz.sh SECONDS [SEED]' >&2
  exit 2
fi

first=$seed
while [ "$seed" = "$first" ] || [ $SECONDS -lt "$seconds" ]; do
  TEST_FAULTS_SEED=$seed TEST_FAULTS_HISTORIES=${HISTORIES:-100} node --experimental-vm-modules \
    --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js --selectProjects host --testPathPatterns property/faults
  seed=$((seed + 1))
done
echo "fuzz: the histories of $((seed - first)) seeds held, in $SECONDS s"
