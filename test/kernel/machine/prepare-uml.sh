# What User-Mode Linux needs before the job. Sourced by init.sh.

# Its modules lie where modprobe does not look, and this machine's own /lib is not ours to write to.
modules=/run/test-kernel/modules
mkdir -p "$modules/lib/modules"
ln -s "/usr/lib/uml/modules/$(uname -r)" "$modules/lib/modules/$(uname -r)"
cat >/run/test-kernel/bin/modprobe <<WRAPPER
#!/bin/sh
exec $(command -v modprobe) -d $modules "\$@"
WRAPPER
chmod +x /run/test-kernel/bin/modprobe
echo /run/test-kernel/bin/modprobe >/proc/sys/kernel/modprobe
