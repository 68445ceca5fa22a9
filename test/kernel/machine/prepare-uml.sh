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

# This kernel has no nft_chain_nat: only the legacy variant of iptables works.
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -s "$(command -v xtables-legacy-multi)" "/run/test-kernel/bin/$name"
done
