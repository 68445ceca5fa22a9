# What User-Mode Linux needs before the job. Sourced by init.sh.

# Its modules lie where modprobe does not look, and this machine's own /lib is not ours to write to.
modules=/run/test-kernel/modules
mkdir -p "$modules/lib/modules"
ln -s "$MODULES/$(uname -r)" "$modules/lib/modules/$(uname -r)"

out=/dev/tty1
err=/dev/tty2
# Terminals that change nothing: the bytes written are the bytes that come out. Done again at the end, it waits until all has been written.
as_bytes() {
  local terminal
  for terminal in $out $err; do stty -F "$terminal" raw -echo; done
}
