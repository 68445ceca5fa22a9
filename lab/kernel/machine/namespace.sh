#!/bin/bash
# Inside the new namespaces of a native run: folders, lo and modules; then the job.
set -eu
export PROJECT=$1 JOB=$2
machine=$PROJECT/lab/kernel/machine
mount --make-rprivate /
# The /sys of the old network namespace still shows the old interfaces.
umount --lazy /sys 2>/dev/null || true
mount -t sysfs sysfs /sys
# shellcheck source=fresh-folders.sh
. "$machine/fresh-folders.sh"
ip link set lo up
{
  load_modules
  choose_iptables
} >"$JOB/console" 2>&1
exec env -i "$BASH" "$machine/command.sh" "$JOB"
