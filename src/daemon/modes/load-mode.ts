import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Mode } from './mode.ts';

export async function loadMode(name: ProxyConfig['mode']): Promise<Mode> {
  switch (name) {
    case 'ipvs':
      return (await import('./ipvs.ts')).IPVS;
    case 'nftables':
      return (await import('./nftables.ts')).NFTABLES;
    case 'iptables':
      return (await import('./iptables.ts')).IPTABLES;
    case 'userspace':
      return (await import('./userspace.ts')).USERSPACE;
  }
}
