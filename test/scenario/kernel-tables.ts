import type { Namespace } from '../bed/namespace.ts';
import { setLine, virtualServerLine } from './tables.ts';

/** What the kernel holds and its tools show; the other tables are the daemon's own. */
export const KERNEL_TABLES = ['virtual servers', 'sets', 'addresses', 'local routes'] as const;
export type KernelTables = Readonly<Record<(typeof KERNEL_TABLES)[number], readonly string[]>>;

/** What a node's kernel holds, as the system's own tools tell it. */
export async function readKernelTables(node: Namespace): Promise<KernelTables> {
  // One shell for all: it is asked for until everything has settled, and entering a namespace takes its time.
  const { stdout } = await node.exec(['sh', '-ec', ALL]);
  const [ipvs = '', sets = '', device = '', routes = ''] = stdout.split('===\n');
  return {
    'virtual servers': parseIpvsadm(ipvs),
    sets: parseIpset(sets),
    addresses: parseAddresses(device),
    'local routes': parseRoutes(routes),
  };
}

const LOCAL_ROUTES = 'route show table local dev lo type local';
const ALL =
  'ipvsadm -Sn; echo ===; ipset save; echo ===; ip -j addr show dev kube-ipvs0; echo ===; ' +
  `ip -4 ${LOCAL_ROUTES}; ip -6 ${LOCAL_ROUTES}`;

const PROTOCOLS: Readonly<Record<string, string>> = { '-t': 'TCP', '-u': 'UDP', '--sctp-service': 'SCTP' };

interface Listed {
  readonly scheduler: string;
  readonly options: readonly string[];
  readonly realServers: { readonly at: string; readonly weight: number }[];
}

/** `ipvsadm -Sn`; real servers that only drain (weight 0) are left out: whether they are there still depends on old connections. */
export function parseIpvsadm(text: string): string[] {
  const services = new Map<string, Listed>();
  for (const words of text.split('\n').map((line) => line.trim().split(/\s+/))) {
    const [verb, flag = '', at = ''] = words;
    const id = `${PROTOCOLS[flag] ?? flag} ${at}`;
    if (verb === '-A')
      services.set(id, { scheduler: valueOf(words, '-s'), options: optionsOf(words), realServers: [] });
    const weight = Number(valueOf(words, '-w'));
    if (verb === '-a' && weight > 0) services.get(id)?.realServers.push({ at: valueOf(words, '-r'), weight });
  }
  return Array.from(services, ([id, { scheduler, options, realServers }]) =>
    virtualServerLine(id, scheduler, options, realServers),
  );
}

function valueOf(words: readonly string[], flag: string): string {
  const at = words.indexOf(flag);
  return at < 0 ? '' : (words[at + 1] ?? '');
}

function optionsOf(words: readonly string[]): string[] {
  const persistent = valueOf(words, '-p');
  const flags = valueOf(words, '-b').split(',');
  // A netmask of IPv4, or a prefix length of IPv6.
  const network = valueOf(words, '-M');
  return [
    ...(persistent === '' ? [] : [`persistent ${persistent}`]),
    ...(network === '' ? [] : [`/${network.includes('.') ? prefixOf(network) : network}`]),
    ...(words.includes('-o') ? ['one-packet'] : []),
    ...(flags.some((flag) => /^(flag-1|(mh|sh)-fallback)$/.test(flag)) ? ['fallback'] : []),
    ...(flags.some((flag) => /^(flag-2|(mh|sh)-port)$/.test(flag)) ? ['port'] : []),
  ];
}

function prefixOf(netmask: string): number {
  return netmask
    .split('.')
    .map((byte) => Number(byte).toString(2).replaceAll('0', '').length)
    .reduce((sum, ones) => sum + ones);
}

function parseIpset(text: string): string[] {
  const sets = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [verb, name = '', entry = ''] = line.split(' ');
    if (verb === 'create') sets.set(name, []);
    if (verb === 'add') sets.get(name)?.push(entry);
  }
  return Array.from(sets, ([name, entries]) => setLine(name, entries));
}

interface Device {
  readonly addr_info: readonly { readonly local: string; readonly scope: string }[];
}

function parseAddresses(json: string): string[] {
  const devices = JSON.parse(json) as readonly Device[];
  return devices.flatMap(({ addr_info: list }) =>
    list.filter(({ scope }) => scope !== 'link').map(({ local }) => local),
  );
}

/** Networks of the lines of `ip route show`, but for those that the kernel makes for each address. */
function parseRoutes(text: string): string[] {
  const lines = text.split('\n').filter((line) => line.startsWith('local ') && !line.includes(' proto kernel '));
  return lines.map((line) => line.split(' ')[1] ?? '');
}
