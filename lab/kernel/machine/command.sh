#!/bin/bash
# Runs one job and leaves its exit status: the first process of a new process namespace, so that whatever the command
# leaves running ends with it. Not the command itself: a first process ignores signals and must reap orphans.
job=$1
: >"$job/started"
# shellcheck disable=SC1091
. "$job/environment"
export PATH=/run/test-kernel/bin:$PATH:/usr/sbin:/sbin
# shellcheck disable=SC1091
(. "$job/command")
echo $? >"$job/status"
