# What the emulated machine needs before the job. Sourced by init.sh.
modules=$MODULES

# /dev names ports by number; the names that qemu.sh gave them are here.
port() {
  local name
  name=$(grep -lx "$1" /sys/class/virtio-ports/*/name)
  name=${name%/name}
  echo "/dev/${name##*/}"
}
out=$(port out)
err=$(port err)
# They are no terminals: nothing is changed on the way.
as_bytes() { :; }
