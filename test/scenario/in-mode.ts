import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import type { Given, Probes, Step, Table } from './scenario-file.ts';
import { setLine } from './tables.ts';

type Part = Table | Given;

const NO_CONNECTIONS = 'the mode does not count connections: an endpoint that is not wanted is removed at once';
const OF_IPVS = 'it is the state of IPVS and of kube-ipvs0, which the mode does not use';
const OF_FILTER = 'they filter what IPVS gets; what the rules of the mode do to packets is traced';

/** What scenarios may contain and a mode does not have in memory, with the reason. */
export const NOT_IN_MODE: Readonly<Record<ProxyMode, Readonly<Partial<Record<Part, string>>>>> = {
  ipvs: {},
  nftables: {
    'kernel before': OF_IPVS,
    connections: NO_CONNECTIONS,
    rules: OF_FILTER,
  },
  iptables: {
    'kernel before': OF_IPVS,
    connections: NO_CONNECTIONS,
    rules: OF_FILTER,
  },
  userspace: {
    'kernel before': OF_IPVS,
    connections: NO_CONNECTIONS,
    rules: OF_FILTER,
  },
};

/** The tables of scenarios that are only of ipvs mode, by the beginning of the scenario's name. */
export const ONLY_IN_IPVS_MODE: Readonly<
  Record<string, { readonly tables: readonly Table[]; readonly reason: string }>
> = {
  'annotations/': { tables: ['warnings', 'explain'], reason: 'Services cannot ask for settings of their own' },
};

/** Returns the tables after a step in a mode: in sections of its own, or derived from those of ipvs mode. */
export function tablesIn(mode: ProxyMode, name: string, step: Step): ReadonlyMap<Table, readonly string[]> {
  if (mode === 'ipvs') return step.tables;
  const others = Object.entries(ONLY_IN_IPVS_MODE).flatMap(([start, { tables }]) =>
    name.startsWith(start) ? tables : [],
  );
  const isShared = (table: Table): boolean => NOT_IN_MODE[mode][table] === undefined && !others.includes(table);
  const asks = asksInMode(mode, name);
  const derived = Array.from(step.tables, ([table, lines]) => [table, asInMode(mode, table, lines, asks)] as const);
  const { nftables, userspace } = step.tablesOfModes;
  const shared = derived.filter(([table]) => isShared(table));
  if (mode !== 'userspace') return new Map([...shared, ...step.tablesOfModes[mode]]);
  const ofTables = Array.from(nftables, ([table, lines]) => [table, asInMode(mode, table, lines)] as const);
  return new Map([...shared, ...ofTables, ...userspace]);
}

/** Whether Services of a scenario ask for schedulers, weights and limits that the mode has. */
function asksInMode(mode: ProxyMode, name: string): boolean {
  return mode === 'userspace' && name.startsWith('annotations/');
}

/** @param asks whether Services ask for schedulers, weights and limits */
function asInMode(
  mode: Exclude<ProxyMode, 'ipvs'>,
  table: Table,
  lines: readonly string[],
  asks = false,
): readonly string[] {
  if (table === 'virtual servers') {
    const { scheduler, protocols }: { readonly scheduler: string; readonly protocols?: readonly string[] } =
      MODE_PLANS[mode];
    const isServed = (line: string): boolean => protocols?.some((protocol) => line.startsWith(protocol)) !== false;
    return lines.filter(isServed).map((line) => withoutIpvs(line, scheduler, asks));
  }
  if (table === 'sets') return lines.map(SETS_OF[mode]);
  return table === 'addresses' || table === 'local routes' ? [] : lines;
}

const SETS_OF: Readonly<Record<Exclude<ProxyMode, 'ipvs'>, (line: string) => string>> = {
  nftables: onlyClusterIps,
  iptables: withoutClosed,
  userspace: onlyClusterIps,
};

/** Services that ask for one of these get it from the engine. */
const OF_ENGINE: ReadonlySet<string> = new Set(['wrr', 'lc', 'wlc']);

/** Endpoints are chosen at random, have no weights and no limits, unless Services may ask for them, and are removed at once. */
function withoutIpvs(line: string, common: string, asks: boolean): string {
  const [id = '', servers = ''] = line.split(' -> ');
  const [protocol = '', at = '', ...options] = id.split(' ');
  const [own = ''] = options;
  const scheduler = asks && OF_ENGINE.has(own) ? own : common;
  const persistent = /persistent \d+/.exec(options.join(' '))?.[0];
  const left = servers.split(', ').filter((server) => !server.includes('(weight 0)'));
  return [
    [protocol, at, scheduler, ...(persistent === undefined ? [] : [persistent])].join(' '),
    left.length === 0
      ? 'none'
      : left.map((server) => (asks ? server : server.replaceAll(/ \((weight|limit) [^)]+\)/g, ''))).join(', '),
  ].join(' -> ');
}

/** The rules of each endpoint masquerade what comes from it, and no rule closes other ports. */
function withoutClosed(line: string): string {
  const [name = ''] = line.split(': ');
  return /^KUBE-(6-)?(LOOP-BACK|IPVS-IPS)$/.test(name) ? setLine(name, []) : line;
}

/**
 * External and load balancer IPs may be addresses of other hosts, so their other ports are not closed. No rule needs the addresses
 * of node ports, or the ports of health checks.
 */
function onlyClusterIps(line: string): string {
  const [name = '', entries = ''] = line.split(': ');
  if (/^KUBE-(6-)?(NODE-PORT-IP|HEALTH-CHECK-NODE-PORT)$/.test(name)) return setLine(name, []);
  if (!/^KUBE-(6-)?IPVS-IPS$/.test(name)) return line;
  return setLine(
    name,
    entries.split(', ').filter((address) => /^(10\.202\.|fd00:202:)/.test(address)),
  );
}

/** The endpoint's client is the engine of node-0. */
function asForwarded(probe: Probes[number]): Probes[number] {
  if ('kind' in probe || probe.expect.kind !== 'answered' || probe.expect.source === undefined) return probe;
  return { ...probe, expect: { ...probe.expect, source: { kind: 'node', node: 'node-0' } } };
}

/** Returns the probes after a step in a mode: its own, or those of ipvs mode. */
export function probesIn(mode: ProxyMode, step: Step): Probes {
  const own = step.probesOfModes[mode];
  if (own !== undefined || mode !== 'userspace') return own ?? step.probes;
  return (step.probesOfModes.nftables ?? step.probes).map(asForwarded);
}
