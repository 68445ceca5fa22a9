import type { IpFamily } from '../../src/base/ip.ts';

/** Output of the system's tools, in the format of state-lines.ts. */

/** `ipset save`. Of a set's properties, only name and type are stable. */
export function setLines(saved: string): string[] {
  const lines = saved.split('\n').filter((line) => line !== '');
  return lines.map((line) => (line.startsWith('create ') ? line.split(' ').slice(0, 3).join(' ') : line));
}

interface LinkJson {
  readonly ifname: string;
  readonly addr_info: readonly {
    readonly family: string;
    readonly local: string;
    readonly scope: string;
    readonly preferred_life_time: number;
  }[];
}

/** `ip -j addr`. Marks IPv6 service addresses that may wrongly be the source of the node's own connections. */
export function addressLines(json: string): string[] {
  const lines: string[] = [];
  for (const { ifname, addr_info: addresses } of JSON.parse(json) as LinkJson[]) {
    if (ifname === 'kube-ipvs0') lines.push('device');
    if (ifname === 'lo') continue;
    for (const { family, local, scope, preferred_life_time: preferred } of addresses) {
      if (scope === 'link' && family === 'inet6') continue;
      if (ifname !== 'kube-ipvs0') lines.push(`${ifname} ${local}`);
      else lines.push(family === 'inet6' && preferred > 0 ? `preferred address ${local}` : `address ${local}`);
    }
  }
  return lines;
}

/** `iptables-save`, each rule with its place in its chain. */
export function ruleLines(family: IpFamily, saved: string): string[] {
  const places = new Map<string, number>();
  const lines: string[] = [];
  let table = '';
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    else if (line.startsWith(':')) lines.push(`chain${family} ${table} ${line.split(' ').slice(0, 2).join(' ')}`);
    else if (line.startsWith('-A ')) {
      const chain = `${table} ${line.split(' ')[1] ?? ''}`;
      const place = (places.get(chain) ?? 0) + 1;
      places.set(chain, place);
      lines.push(`rule${family} ${table} ${place} ${line}`);
    }
  }
  return lines;
}
