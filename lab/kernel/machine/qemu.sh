# Debian's kernel in an emulated machine, with this machine's file tree as its root. Sourced by run.sh, which sets `cache`.

# Says why it is not possible, and fails; prints nothing when it is. Asked last, for it installs and downloads what is missing.
qemu_missing() {
  local said
  packages_missing qemu || return 1
  if [ -n "$(qemu_kernel)" ]; then return; fi
  echo "test kernel: fetching Debian's kernel for QEMU into $cache" >&2
  if ! said=$("$machine/fetch-qemu-kernel.sh" "$cache" 2>&1); then
    echo "its kernel cannot be fetched: ${said##*$'\n'}"
    return 1
  fi
}

# The folder of the newest kernel in the cache; nothing when there is none.
qemu_kernel() {
  find "$cache" -mindepth 1 -maxdepth 1 -name 'linux-*' 2>/dev/null | sort -V | tail -n 1
}

# Starts the job in the background in a process group of its own; sets `group`.
qemu_start() {
  local kernel security=none
  kernel=$(qemu_kernel)
  "$machine/qemu-initramfs.sh" "$kernel" "$job" >"$job/console" 2>&1 || return
  # An ordinary user cannot give files away.
  if [ "$(id -u)" = 0 ]; then security=passthrough; fi
  echo "test kernel: QEMU, $memory memory" >&2
  # The vector instructions of AVX are slow where each is emulated; without them libraries use older ones. Code that always has the same
  # addresses (norandmaps) is translated less often.
  setsid qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max,la57=off,avx=off,avx2=off -smp 2 -m "$memory" \
    -nodefaults -no-user-config -display none -no-reboot -serial "file:$job/serial" \
    -kernel "$kernel/vmlinuz" -initrd "$job/initramfs" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable norandmaps KIND=qemu JOB=\"$job\" PROJECT=\"$project\" MODULES=\"$kernel\"" \
    -virtfs "local,path=/,mount_tag=machine,security_model=$security,multidevs=remap" \
    -device virtio-serial-pci \
    -chardev file,id=out,path=/dev/fd/7 -device virtserialport,nr=1,name=out,chardev=out \
    -chardev file,id=err,path=/dev/fd/8 -device virtserialport,nr=2,name=err,chardev=err >"$job/console" 2>&1 &
  group=$!
}
