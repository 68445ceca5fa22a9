# User-Mode Linux with this machine's file tree as its root. Sourced by run.sh.
uml=$(PATH=$PATH:/usr/bin command -v linux.uml || true)
# Relative to the project: LD_PRELOAD has no way to name a path with a space.
preload=build/kernel/ptrace-xstate.so

# Says why it is not possible, and fails; prints nothing when it is.
uml_missing() {
  if [ "$(uname -m)" != x86_64 ]; then
    echo "it needs an x86-64 machine"
    return 1
  fi
  if [ -z "$uml" ] || ! ls -d /usr/lib/uml/modules/*/ >/dev/null 2>&1; then
    echo "the package user-mode-linux is missing, run: make deps"
    return 1
  fi
  uml_surroundings_missing
}

# The same, for what such a kernel needs beside itself.
uml_surroundings_missing() {
  local tool
  for tool in ip ipvsadm ipset xtables-legacy-multi conntrack modprobe; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null; then
      echo "$tool is missing, run: make deps"
      return 1
    fi
  done
  if ! uml_memory_folder >/dev/null; then
    echo "no writable folder has $memory free for its memory, set TMPDIR or KERNEL_MEMORY"
    return 1
  fi
  uml_preload
}

# Compiles what is preloaded into it (ptrace-xstate.cc says why), unless it is there. Says why it cannot be had, and fails.
uml_preload() {
  local source=$machine/ptrace-xstate.cc folder=$project/${preload%/*} new said
  if [ "$project/$preload" -nt "$source" ]; then return; fi
  if ! new=$(mkdir -p "$folder" 2>/dev/null && mktemp "$folder/ptrace-xstate.XXXXXX" 2>/dev/null); then
    echo "its helper is not compiled yet and $folder cannot be written, run it once as a user who can"
    return 1
  fi
  # Several may do this at a time: each has a file of its own until it is whole.
  if said=$("${CXX:-g++}" -std=c++20 -O2 -Wall -Wextra -fPIC -shared -fno-exceptions -fvisibility=hidden "$source" -o "$new" 2>&1); then
    chmod 755 "$new"
    mv "$new" "$project/$preload"
  else
    rm -f "$new"
    echo "its helper $source cannot be compiled (${said%%$'\n'*}), run: make deps"
    return 1
  fi
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

# With AMX it saves more registers than User-Mode Linux knows of (ptrace-xstate.cc).
uml_processor() {
  if grep -qw amx_tile /proc/cpuinfo; then echo "with AMX"; else echo "without AMX"; fi
}

# Takes the processor that the fewest other such kernels have, until all processes that inherit the lock have ended; sets
# `pinned`. Such a kernel and the process that it traces only ever run in turn. On two processors, each turn costs an interrupt
# between them, which is slow in a virtual machine: a process starts 1.4 times faster on one, and 2 to 4 times if others compute.
uml_take_processor() {
  local folder=$1 allowed range first last processor slot lock
  pinned=()
  allowed=$(taskset -cp "$BASHPID")
  for slot in {1..8}; do
    for range in $(tr , ' ' <<<"${allowed##*: }"); do
      first=${range%-*} last=${range#*-}
      for ((processor = first; processor <= last; processor++)); do
        exec {lock}>"$folder/kube-ipvs-proxy-$EUID-processor-$processor-$slot" || return 0
        if flock -n "$lock"; then
          pinned=(taskset -c "$processor")
          return
        fi
        exec {lock}>&-
      done
    done
  done
}

# Starts the job in the background in a process group of its own; sets `group`.
uml_start() {
  uml_boot "${titles[uml]}" "$uml" /usr/lib/uml/modules
}

# uml_boot TITLE PROGRAM MODULES: the same for a kernel with its folder of modules. Quotes keep spaces of paths together on the
# command line of a kernel.
uml_boot() {
  local folder
  folder=$(uml_memory_folder)
  uml_take_processor "$folder"
  echo "test kernel: $1, $memory memory, on a processor $(uml_processor)" >&2
  TMPDIR=$folder HOME=$job setsid env --chdir="$project" "LD_PRELOAD=$preload" "${pinned[@]}" "$2" "mem=$memory" \
    rootfstype=hostfs rootflags=/ rw "init=\"$machine/init.sh\"" KIND=uml "JOB=\"$job\"" "PROJECT=\"$project\"" \
    "MODULES=\"$3\"" "uml_dir=$job/" umid=kernel \
    con=null con0=null,fd:1 con1=null,fd:7 con2=null,fd:8 quiet panic=-1 >"$job/console" 2>&1 &
  group=$!
}
