#!/bin/bash
# The first process of a booted test kernel: mounts what a system has, runs the job, leaves its status, powers off.
# KIND, PROJECT and JOB come from the kernel command line. What it prints itself is shown only when the boot fails.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
machine=$PROJECT/lab/kernel/machine
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
# Sets where the modules are, and where output goes.
# shellcheck source=prepare-uml.sh
. "$machine/prepare-$KIND.sh"
cat >/run/test-kernel/bin/modprobe <<WRAPPER
#!/bin/sh
exec $(command -v modprobe) -d "$modules" "\$@"
WRAPPER
chmod +x /run/test-kernel/bin/modprobe
echo /run/test-kernel/bin/modprobe >/proc/sys/kernel/modprobe
load_modules
choose_iptables

as_bytes
{
  unshare --pid --fork --kill-child --mount-proc env -i /bin/bash "$machine/command.sh" "$JOB" </dev/null 2>&3 3>&- |
    cat >$out 3>&-
} 3>&1 | cat >$err
as_bytes
sync
