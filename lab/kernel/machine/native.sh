# This machine's own kernel, in new namespaces. Sourced by run.sh.

# Says why it is not possible, and fails; prints nothing when it is.
native_missing() {
  local tool
  if [ "$(id -u)" != 0 ]; then
    echo "we are not root"
    return 1
  fi
  for tool in unshare ip ipvsadm ipset iptables conntrack; do
    if ! command -v "$tool" >/dev/null; then
      echo "$tool is missing, run: make deps"
      return 1
    fi
  done
  if ! unshare --net --mount --pid --fork true 2>/dev/null; then
    echo "no right to make namespaces"
    return 1
  fi
  local module
  for module in ip_vs dummy; do modprobe -q "$module" 2>/dev/null || true; done
  # Asking for the thing itself also finds what is built in.
  if ! [ -e /proc/net/ip_vs ]; then
    echo "its kernel has no ip_vs"
    return 1
  fi
  if ! unshare --net ip link add probe type dummy 2>/dev/null; then
    echo "its kernel has no dummy interfaces"
    return 1
  fi
}

# Starts the job in the background in a process group of its own; sets `group`.
native_start() {
  echo "test kernel: native, Linux $(uname -r)" >&2
  setsid unshare --net --mount --pid --fork --kill-child --mount-proc \
    "$BASH" "$machine/namespace.sh" "$project" "$job" >&7 2>&8 7>&- 8>&- &
  group=$!
}
