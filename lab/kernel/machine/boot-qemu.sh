#!/busybox sh
# The first process of the emulated machine: mounts its root, this machine's file tree, and goes on with init.sh there.
set -e
trap '/busybox poweroff -f' EXIT
while read -r module; do /busybox insmod "/$module"; done </modules
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose machine /root
/busybox mount -t devtmpfs devtmpfs /root/dev
exec /busybox switch_root /root "$PROJECT/lab/kernel/machine/init.sh"
