#!/bin/bash
# The first process of a node. Its root is a copy-on-write view of this machine's file tree, so that the machine is never
# written to. Then: folders, modules, network, containerd, images, kubelet, and a door for a shell.
#
# On the kernel's command line: KERNEL_FOLDER, with modules; NODE_FOLDER, with the files of node-files.ts; LOGS; BIN,
# with kubelet and containerd; IMAGES and CLUSTER_IMAGES, with archives; PACKAGES, with runc, CNI plugins and dropbear.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
trap 'poweroff -f' EXIT

# A view of the machine's tree over the tree itself, as the new root.
enter_root() {
  local release
  mount -t proc proc /proc
  release=$(uname -r)
  insmod "$KERNEL_FOLDER/modules/$release/kernel/fs/overlayfs/overlay.ko"
  mount -t tmpfs -o mode=755 tmpfs /mnt
  mkdir /mnt/{upper,work,root}
  mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work root /mnt/root
  umount /proc
  cd /mnt/root
  pivot_root . mnt
  exec chroot . /bin/bash "$0" entered
}

# shared NAME FOLDER: a folder of this machine as /cluster/NAME.
shared() {
  mkdir -p "/cluster/$1"
  mount -t hostfs -o "$2" none "/cluster/$1"
}

make_folders() {
  local folder
  umount -l /mnt
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o ptmxmode=666 devpts /dev/pts
  [ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
  shared node "$NODE_FOLDER"
  shared logs "$LOGS"
  shared bin "$BIN"
  shared images "$IMAGES"
  shared cluster-images "$CLUSTER_IMAGES"
  shared packages "$PACKAGES"
  for folder in /dev/shm /run /tmp; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
  # What the machine itself may have here is none of the node's business; and containers need a root that is no overlay.
  for folder in /var/lib/{kubelet,containerd,cni} /var/log /etc/cni /opt /lib/modules; do
    mkdir -p "$folder"
    mount -t tmpfs -o mode=755 tmpfs "$folder"
  done
  mkdir -p /var/log/{pods,containers} /etc/cni/net.d /run/lock "/lib/modules/$(uname -r)"
  mount --bind "$KERNEL_FOLDER/modules/$(uname -r)" "/lib/modules/$(uname -r)"
  # kubelet wants a clock speed, which this kernel does not tell.
  sed '/^$/d' /proc/cpuinfo >/run/cpuinfo
  printf 'cpu MHz\t\t: 2000.000\n\n' >>/run/cpuinfo
  mount --bind /run/cpuinfo /proc/cpuinfo
  mount --make-rshared /
  # Shells find them there, too.
  ln -sf /cluster/packages/usr/{bin,sbin}/* /cluster/bin/{kubelet,containerd,containerd-shim-runc-v2,ctr} /usr/local/bin/
}

# The same variant as in the images of Pods.
use_legacy_iptables() {
  local name
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -sf /usr/sbin/xtables-legacy-multi "$(command -v "$name")"
  done
}

start_network() {
  local name
  while read -r name; do modprobe "$name" || true; done </cluster/node/modules
  use_legacy_iptables
  hostname "$(cat /cluster/node/hostname)"
  sysctl -qp /cluster/node/sysctl.conf
  ip -batch /cluster/node/network
  for name in iptables ip6tables; do "$name-restore" --noflush <"/cluster/node/$name"; done
  cp /cluster/node/cni.conflist /etc/cni/net.d/10-pods.conflist
  cp /cluster/node/resolv.conf /run/resolv.conf
}

# A shell for whoever has the key, also when kubelet does not work.
open_door() {
  mkdir -p -m 700 /root/.ssh
  cp /cluster/node/authorized_keys /root/.ssh/authorized_keys
  chmod 700 /root /root/.ssh
  chmod 600 /root/.ssh/authorized_keys
  export LD_LIBRARY_PATH=/cluster/packages/usr/lib/x86_64-linux-gnu
  mkdir -p /run/dropbear
  dropbearkey -t ed25519 -f /run/dropbear/key
  dropbear -F -E -s -r /run/dropbear/key -p 22 &
  unset LD_LIBRARY_PATH
}

import() {
  ctr -n k8s.io images import "$1" >/dev/null || echo "import of $1 failed"
}

import_rest() {
  local archive
  for archive in /cluster/images/*.tar; do
    case " ${first[*]} " in *" $archive "*) ;; *) import "$archive" ;; esac
  done
  echo "all images are imported" >/cluster/logs/images
}

start_containers() {
  local archive first
  rm -f /cluster/logs/images
  # With the one processor of the node, they would otherwise get most of its time, and Pods almost none, while they start.
  renice -n 15 $BASHPID >/dev/null
  containerd -c /cluster/node/containerd.toml >>/cluster/logs/containerd.log 2>&1 &
  until ctr version >/dev/null 2>&1; do sleep 0.5; done
  # First what the cluster itself runs; the rest, which takes longer, when that is ready (nodes.ts).
  mapfile -t first </cluster/node/first-images
  for archive in "${first[@]}" /cluster/cluster-images/*.tar; do import "$archive"; done
  # A node that was restarted had all images: it gets them back before kubelet starts Pods.
  if [ -e /cluster/node/import-all ]; then import_rest; fi
  while :; do
    until [ ! -e /run/kubelet-stopped ]; do sleep 0.5; done
    kubelet --config=/cluster/node/kubelet.json --kubeconfig=/cluster/node/kubeconfig \
      --hostname-override="$(cat /cluster/node/hostname)" --node-ip="$(cat /cluster/node/addresses)" \
      --node-labels="$(cat /cluster/node/labels)" --v=2 || true
    sleep 2
  done >>/cluster/logs/kubelet.log 2>&1 &
  until [ -e /cluster/node/import-all ]; do sleep 0.5; done
  if [ ! -e /cluster/logs/images ]; then import_rest; fi
}

# A function, so that the file has been read to its end before it runs.
main() {
  if [ "${1:-}" != entered ]; then enter_root; fi
  make_folders
  exec >>/cluster/logs/init.log 2>&1
  start_network
  open_door
  start_containers
  # The node ends with the process that is its kernel.
  while :; do wait || true; sleep 60; done
}
main "$@"
