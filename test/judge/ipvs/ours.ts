import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { planConfigOf } from '../../../src/daemon/startup/node-identity.ts';
import { formatIp } from '../../../src/base/ip.ts';
import type { Flow, NodeAddress } from '../../../src/kernel/kernel.ts';
import { readManifests } from '../../../src/kube/manifests/manifest-file.ts';
import {
  type ManifestSet,
  changeEvents,
  mergeManifests,
  replacedEvents,
} from '../../../src/kube/manifests/manifest-set.ts';
import { Interner } from '../../../src/kube/objects/interner.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { formatVirtualServer, virtualServerKey } from '../../../src/state/virtual-server.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { Reconciling } from '../../support/reconciling.ts';
import { address, portOf } from '../../support/state.ts';
import {
  type Case,
  type CaseConfig,
  type CaseFlow,
  type ClusterObject,
  type Step,
  keyOf,
  nameOf,
} from '../case/case.ts';
import type { IpvsState, VirtualServerState } from './state.ts';

/** Plays a case on our side, on the kernel in memory; returns the state after each step. */
export async function playOurs(given: Case): Promise<IpvsState[]> {
  const run = await OurRun.start(given);
  const states: IpvsState[] = [];
  for (const step of given.steps) states.push(await run.take(step));
  return states;
}

/** The arguments of the daemon for the settings of a case. */
export function argumentsOf(config: CaseConfig): string[] {
  const lists: [string, readonly string[]][] = [
    ['cluster-cidr', config.clusterCIDRs],
    ['nodeport-addresses', config.nodePortAddresses],
    ['feature-gates', Object.entries(config.featureGates).map(([name, value]) => `${name}=${value}`)],
  ];
  const texts: [string, string][] = [
    ['ipvs-scheduler', config.scheduler],
    ['detect-local-mode', config.detectLocalMode],
    ['bind-address', config.bindAddress],
    ...lists.map(([name, values]): [string, string] => [name, values.join(',')]),
  ];
  const given = texts.filter(([, value]) => value !== '').map(([name, value]) => `--${name}=${value}`);
  return [...given, `--masquerade-all=${config.masqueradeAll}`];
}

class OurRun {
  readonly #kernel: FakeKernel;
  readonly #run: Reconciling;
  readonly #nodeName: string;
  readonly #objects = new Map<string, Case['node'] | ClusterObject>();
  #current: ManifestSet | undefined;

  private constructor(kernel: FakeKernel, run: Reconciling, node: Case['node']) {
    this.#kernel = kernel;
    this.#run = run;
    this.#nodeName = node.metadata.name;
    this.#objects.set('Node', node);
  }

  static async start({ mode, config, node, interfaces }: Case): Promise<OurRun> {
    const nodeName = node.metadata.name;
    const parsed = parseArgv([`--proxy-mode=${mode}`, `--hostname-override=${nodeName}`, ...argumentsOf(config)]);
    if (!parsed.ok) throw new Error(parsed.errors.join('; '));
    const resolved = resolveConfig(parsed.given, undefined);
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.setNodeAddresses(Object.entries(interfaces).flatMap(([name, addresses]) => addressesOf(name, addresses)));
    // The daemon waits for its Node before it plans.
    const cluster = new Cluster(nodeName);
    for (const event of replacedEvents(manifestsOf([node], nodeName))) cluster.apply(event);
    const plan = planConfigOf(resolved, nodeName, [4, 6], cluster);
    const { nodeIpOverride, excludeCidrs } = resolved;
    const run = new Reconciling(kernel, { plan, nodeIpOverride, excludeCidrs }, resolved.serviceAnnotations);
    return new OurRun(kernel, run, node);
  }

  async take(step: Step): Promise<IpvsState> {
    for (const object of step.apply) this.#objects.set(keyOf(nameOf(object)), object);
    for (const name of step.remove) this.#objects.delete(keyOf(name));
    const flows = new Map(step.flows.map((flow) => [flowOf(flow), flow]));
    this.#kernel.setUdpFlows([...flows.keys()]);
    const next = manifestsOf([...this.#objects.values()], this.#nodeName);
    const events = this.#current === undefined ? replacedEvents(next) : changeEvents(this.#current, next);
    this.#current = next;
    if (events.length > 0) await this.#run.settle(...events);
    const left = new Set([...(await this.#kernel.getUdpFlows(4)), ...(await this.#kernel.getUdpFlows(6))]);
    return await this.#state([...flows].filter(([flow]) => !left.has(flow)).map(([, flow]) => flow));
  }

  async #state(deletedFlows: readonly CaseFlow[]): Promise<IpvsState> {
    const servers = await this.#kernel.getVirtualServers();
    const realServers = await this.#kernel.getRealServers(servers);
    const virtualServers: Record<string, VirtualServerState> = {};
    for (const server of servers) {
      const { scheduler, flags, timeout } = server;
      const found = realServers.get(virtualServerKey(server)) ?? [];
      const weights = Object.fromEntries(found.map((each) => [formatRealServer(each), each.weight]));
      virtualServers[formatVirtualServer(server)] = { scheduler, flags, timeout, realServers: weights };
    }
    const sets = (await this.#kernel.getSets()).map(({ name, entries }) => [name, entries.map(formatIpSetEntry)]);
    const addresses = (await this.#kernel.getBoundAddresses()).map((bound) => formatIp(bound.address));
    const checks = Array.from(this.#run.reconciler.plan.healthChecks, ([name, { port, localEndpoints }]) =>
      (['IPv4', 'IPv6'] as const).map((family) => [`${family} ${name}`, { port, count: localEndpoints }]),
    );
    const healthChecks = Object.fromEntries(checks.flat()) as IpvsState['healthChecks'];
    return {
      virtualServers,
      sets: Object.fromEntries(sets) as IpvsState['sets'],
      addresses,
      healthChecks,
      deletedFlows,
    };
  }
}

/** The objects as the daemon reads them from files, with its selectors. */
function manifestsOf(objects: readonly object[], nodeName: string): ManifestSet {
  const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
  const file = readManifests(text, nodeName, new Interner());
  if (!file.ok) throw new Error(file.message);
  return mergeManifests(new Map([['objects.json', file.objects]])).set;
}

function addressesOf(interfaceName: string, addresses: readonly string[]): NodeAddress[] {
  return addresses.map((text) => {
    const [ip = '', prefix = ''] = text.split('/');
    return { address: address(ip), prefix: Number(prefix), interfaceName, tentative: false };
  });
}

function flowOf(flow: CaseFlow): Flow {
  return {
    family: flow.destination.includes(':') ? 6 : 4,
    protocol: 'UDP',
    source: address(flow.source),
    sourcePort: portOf(flow.sourcePort),
    destination: address(flow.destination),
    destinationPort: portOf(flow.destinationPort),
    replySource: address(flow.replySource),
    replySourcePort: portOf(flow.replySourcePort),
  };
}
