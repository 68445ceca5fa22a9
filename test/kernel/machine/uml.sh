# User-Mode Linux with this machine's file tree as its root. Sourced by run.sh.

# Says why it is not possible, and fails; prints nothing when it is.
uml_missing() {
  local tool
  if [ "$(uname -m)" != x86_64 ]; then
    echo "it needs an x86-64 machine"
    return 1
  fi
  if ! [ -x /usr/bin/linux.uml ] || ! ls -d /usr/lib/uml/modules/*/ >/dev/null 2>&1; then
    echo "the package user-mode-linux is missing, run: make deps"
    return 1
  fi
  for tool in ip ipvsadm ipset xtables-legacy-multi conntrack modprobe; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null; then
      echo "$tool is missing, run: make deps"
      return 1
    fi
  done
}

# A folder for the file that is the kernel's memory: it is sparse, but must be able to grow to its full size, and
# to be mapped executable. Prefers one that is memory itself.
uml_memory_folder() {
  local folder kib=$((${memory%[MG]} * 1024))
  if [ "${memory: -1}" = G ]; then kib=$((kib * 1024)); fi
  for folder in /dev/shm "${TMPDIR:-/tmp}" /var/tmp; do
    [ -w "$folder" ] || continue
    [ "$(df --output=avail -k "$folder" | tail -n 1)" -gt "$kib" ] || continue
    case ",$(findmnt -n -o OPTIONS --target "$folder")," in *,noexec,*) continue ;; esac
    echo "$folder"
    return 0
  done
  return 1
}

# Starts the job in the background in a process group of its own; sets `group`.
uml_start() {
  local folder
  folder=$(uml_memory_folder) ||
    fail "no writable folder with $memory free for the memory of User-Mode Linux; set TMPDIR or KERNEL_MEMORY"
  echo "test kernel: User-Mode Linux, $memory memory" >&2
  TMPDIR=$folder HOME=$job setsid /usr/bin/linux.uml "mem=$memory" rootfstype=hostfs rootflags=/ rw \
    "init=$machine/init.sh" KIND=uml "JOB=$job" "PROJECT=$project" "uml_dir=$job/" umid=kernel \
    con=null con0=null,fd:1 con1=null,fd:7 con2=null,fd:8 quiet panic=-1 >"$job/console" 2>&1 &
  group=$!
}
