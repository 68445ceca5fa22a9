# Gives the job its own empty /tmp, /run and /dev/shm in memory. Sourced by init.sh and namespace.sh, which set
# PROJECT and JOB; those two stay visible even when they lie below a covered folder.

exec 5<"$PROJECT" 6<"$JOB"
mkdir -p /dev/shm
for folder in /dev/shm /tmp /run; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done

uncover() {
  case $2 in
    /dev/shm/* | /tmp/* | /run/*)
      mkdir -p "$2"
      # By descriptor: the path itself is covered by now.
      mount --no-canonicalize --bind "/proc/self/fd/$1" "$2"
      ;;
  esac
}
uncover 5 "$PROJECT"
uncover 6 "$JOB"
exec 5<&- 6<&-
mkdir -p /run/netns /run/lock /run/test-kernel/bin

load_modules() {
  local modules
  mapfile -t modules <"$PROJECT/test/kernel/machine/modules"
  modprobe --all "${modules[@]}" 2>&1 || true
}
