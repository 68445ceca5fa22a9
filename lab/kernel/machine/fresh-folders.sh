# Gives the job its own empty /tmp, /run and /dev/shm in memory. Sourced by init.sh and namespace.sh, which set
# PROJECT and JOB (and MODULES, where they come from a cache); those stay visible even when they lie below a covered folder. So does /run/test-kernel, when
# this is a native run inside a booted kernel: KERNEL_USED is set then.

mkdir -p /dev/shm
exec 5<"$PROJECT" 6<"$JOB"
if [ -n "${KERNEL_USED:-}" ] && [ -d /run/test-kernel ]; then exec 7</run/test-kernel; fi
if [ -n "${MODULES:-}" ]; then exec 8<"$MODULES"; fi
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
if [ -e /proc/self/fd/7 ]; then uncover 7 /run/test-kernel; fi
if [ -e /proc/self/fd/8 ]; then uncover 8 "$MODULES"; fi
exec 5<&- 6<&- 7<&- 8<&-
mkdir -p /run/netns /run/lock /run/test-kernel/bin
export PATH=/run/test-kernel/bin:$PATH

load_modules() {
  local modules
  mapfile -t modules <"$PROJECT/lab/kernel/machine/modules"
  modprobe --all "${modules[@]}" 2>&1 || true
}

# Whether this kernel serves an iptables.
serves() {
  unshare --net "$1" -t nat -A POSTROUTING -j MASQUERADE
}

# Links to one variant of iptables come first in PATH: to the one of TEST_IPTABLES, else, where the usual iptables is of a
# variant that this kernel cannot serve, to the legacy one. Fails if the kernel cannot serve the one that is asked for.
choose_iptables() {
  local variant multi name
  # shellcheck disable=SC1091
  variant=$(. "$JOB/environment" && echo "${TEST_IPTABLES:-}")
  if [ -n "$variant" ] && ! serves "iptables-$variant"; then
    echo "it cannot serve iptables-$variant, which TEST_IPTABLES asks for"
    return 1
  fi
  if [ -z "$variant" ] && serves iptables 2>/dev/null; then return; fi
  multi=$(command -v "xtables-${variant:-legacy}-multi") || return 0
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -sf "$multi" "/run/test-kernel/bin/$name"
  done
}
