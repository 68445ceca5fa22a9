#!/bin/bash
# The first process of a booted test kernel: mounts what a system has, runs the job, leaves its status, powers off.
# KIND, PROJECT and JOB come from the kernel command line. What it prints itself is shown only when the boot fails.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
machine=$PROJECT/test/kernel/machine
trap 'poweroff -f' EXIT

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
# shellcheck source=fresh-folders.sh
. "$machine/fresh-folders.sh"

hostname test-kernel
ip link set lo up
# shellcheck source=prepare-uml.sh
. "$machine/prepare-$KIND.sh"
load_modules
use_working_iptables

# Terminals that change nothing: the bytes written are the bytes that come out. Setting them again at the end waits
# until all has been written.
out=/dev/tty1
err=/dev/tty2
for terminal in $out $err; do stty -F "$terminal" raw -echo; done
{
  unshare --pid --fork --kill-child --mount-proc env -i /bin/bash "$machine/command.sh" "$JOB" </dev/null 2>&3 3>&- |
    cat >$out 3>&-
} 3>&1 | cat >$err
for terminal in $out $err; do stty -F "$terminal" raw -echo; done
sync
