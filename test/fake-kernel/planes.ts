import { IP_FAMILIES, type IpFamily } from '../../src/base/ip.ts';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { iptablesKernelOf } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../src/kernel/nftables/nftables-kernel.ts';
import { userspaceKernelOf } from '../../src/kernel/userspace/userspace-kernel.ts';
import type { VirtualServerId } from '../../src/state/virtual-server.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import { rulesetOfIptables } from '../trace/iptables-text.ts';
import { rulesetOfTable } from '../trace/nft-table.ts';
import type { Ruleset } from '../trace/ruleset.ts';
import type { ForwardedPort } from '../../src/userspace/engine-update.ts';
import { FakeEngine } from './fake-engine.ts';
import { FakeIptables } from './fake-iptables.ts';
import { FakeKernel } from './fake-kernel.ts';
import { FakeNftTable } from './fake-nft-table.ts';

/** What a mode programs, in memory, on a node in memory. */
export interface Plane {
  readonly kernel: Kernel;
  /** The addresses, routes, flows and sysctls of the node; in ipvs mode, the same as `kernel`. */
  readonly node: FakeKernel;
  /** A kernel as another process has it: it knows only what is in force. */
  readonly another: () => Kernel;
  /** The number of changes so far. */
  writes(): number;
  /** Rules as iptables-save prints them, each with its family and table. */
  rules(): Promise<readonly string[]>;
  /** The rules that translate packets of a family, to be traced; undefined in ipvs mode, where IPVS translates. */
  readonly rulesetOf: ((family: IpFamily) => Promise<Ruleset>) | undefined;
  /** What an engine does with connections to a virtual server that rules lead to it. */
  readonly forwarded?: (id: VirtualServerId) => ForwardedPort | undefined;
}

/** A plane whose rules translate packets. */
export type RulesPlane = Plane & { readonly rulesetOf: (family: IpFamily) => Promise<Ruleset> };

export function ipvsPlane(): Plane {
  const kernel = new FakeKernel();
  return {
    kernel,
    node: kernel,
    another: () => kernel,
    writes: () => kernel.counters.writes,
    rules: () =>
      Promise.resolve(
        IP_FAMILIES.flatMap((family) =>
          (kernel.rules(family)?.chains ?? []).flatMap(({ table, name, rules }) =>
            rules.map((rule) => `IPv${family} ${table} ${name} ${rule.join(' ')}`),
          ),
        ),
      ),
    rulesetOf: undefined,
  };
}

export function nftablesPlane(table = new FakeNftTable()): RulesPlane {
  const node = new FakeKernel('nftables');
  const another = (): Kernel => onNode(nftablesKernelOf(new NodeKernel({ log: new QuietLog() }), table), node);
  return {
    kernel: another(),
    node,
    another,
    writes: () => table.committed.length + node.counters.writes,
    rules: () => Promise.resolve([]),
    rulesetOf: (family) => rulesetOfTable(table, family),
  };
}

export function iptablesPlane(programs = new FakeIptables()): RulesPlane {
  const node = new FakeKernel('iptables');
  // Each full check reads the tables.
  const another = (): Kernel => onNode(iptablesKernelOf(new NodeKernel({ log: new QuietLog() }), programs, 0), node);
  return {
    kernel: another(),
    node,
    another,
    writes: () => programs.writes + node.counters.writes,
    rules: async () =>
      (await Promise.all(IP_FAMILIES.map(async (family) => rulesOf(family, await programs.read(family))))).flat(),
    rulesetOf: async (family) => rulesetOfIptables(await programs.read(family)),
  };
}

export function userspacePlane(table = new FakeNftTable(), engine = new FakeEngine()): RulesPlane {
  const node = new FakeKernel('userspace');
  const kernel = onNode(
    userspaceKernelOf(new NodeKernel({ log: new QuietLog() }), table, () => engine),
    node,
  );
  return {
    kernel,
    node,
    // What the engine has is known to its process alone.
    another: () => kernel,
    writes: () => table.committed.length + node.counters.writes,
    rules: () => Promise.resolve([]),
    rulesetOf: (family) => rulesetOfTable(table, family),
    forwarded: (id) => engine.portOf(id),
  };
}

export const PLANES: Readonly<Record<ProxyMode, () => Plane>> = {
  ipvs: ipvsPlane,
  nftables: nftablesPlane,
  iptables: iptablesPlane,
  userspace: userspacePlane,
};

/** Gives a kernel the part of the node that does not depend on the mode. */
function onNode(kernel: Kernel, node: FakeKernel): Kernel {
  return Object.assign(kernel, {
    findRoutes: node.findRoutes.bind(node),
    findUnforwarded: node.findUnforwarded.bind(node),
    getOtherRules: node.getOtherRules.bind(node),
    getNodeAddresses: node.getNodeAddresses.bind(node),
    getUdpFlows: node.getUdpFlows.bind(node),
    getFlowSources: node.getFlowSources.bind(node),
    deleteFlows: node.deleteFlows.bind(node),
    getSysctl: node.getSysctl.bind(node),
    setSysctl: node.setSysctl.bind(node),
  } satisfies Partial<Kernel>);
}

function rulesOf(family: 4 | 6, saved: string): string[] {
  let table = '';
  return saved.split('\n').flatMap((line) => {
    table = /^\*(\S+)/.exec(line)?.[1] ?? table;
    const rule = /^-A (.*)/.exec(line)?.[1];
    return rule === undefined ? [] : [`IPv${family} ${table} ${rule}`];
  });
}
