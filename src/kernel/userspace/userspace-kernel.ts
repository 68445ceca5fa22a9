import type { IpFamily } from '../../base/ip.ts';
import { errorText } from '../../base/text/error-text.ts';
import { Turns } from '../../base/turns.ts';
import type { Preview } from '../../state/commands/write-preview.ts';
import type { Op, ServerOp } from '../../state/op.ts';
import { type Outcome, formatFailure } from '../../state/outcome.ts';
import { FORWARDING, type ObservedRealServer, type RealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  hasSameSettings,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { KernelError } from '../kernel-error.ts';
import type { ExpectedServers, Flow, Kernel, KernelReader } from '../kernel.ts';
import { readOnlyKernel } from '../kernel-reader.ts';
import { NodeKernel, type NodeKernelOptions, once } from '../linux/node-kernel.ts';
import { realServerOf } from '../linux/translating-kernel.ts';
import type { ModeObserver } from '../mode-observer.ts';
import type { NftPort } from '../nftables/port/nft-port.ts';
import { NftablesKernel } from '../nftables/nftables-kernel.ts';
import type { PortTraffic } from '../../userspace/engine-report.ts';
import { engineKey } from './engine-state.ts';
import { endpointStatsOf, statsOf, trafficOf } from './engine-traffic.ts';
import type { EnginePort } from './engine-port.ts';
import { EngineServers } from './engine-servers.ts';
import type { ForwardedServer } from './forwarded-server.ts';
import { ruleParts, withEngine } from './preview.ts';
import { handOverOps, leadsTo, ruleServer } from './rule-ops.ts';
import { isScheduler } from './scheduler.ts';
import { type FindRules, ServerChanges } from './server-changes.ts';

/** Returns the Kernel of userspace mode. The engine is started when a virtual server needs it. */
export function createUserspaceKernel(options: NodeKernelOptions, openEngine: () => EnginePort): Kernel {
  return new UserspaceKernel(new NodeKernel(options), openEngine, undefined, options.modeObserver);
}

/** Returns a kernel that only reads: what leads to the engine. The endpoints are known to the daemon alone. */
export function createUserspaceKernelReader(options: NodeKernelOptions): KernelReader {
  return readOnlyKernel(new UserspaceKernel(new NodeKernel(options), noEngine));
}

/** As createUserspaceKernel, with other tables than the kernel's: for tests. */
export function userspaceKernelOf(node: NodeKernel, port: NftPort, openEngine: () => EnginePort): Kernel {
  return new UserspaceKernel(node, openEngine, port);
}

/** Virtual servers of one transaction when they are handed over. */
const MOST_AT_ONCE = 1_024;

function noEngine(): never {
  throw new Error('a kernel that only reads starts no engine');
}

/**
 * Leads the connections of all virtual servers to the engine, by the tables of nftables mode: each virtual server with
 * endpoints has one there, at which the engine listens. Source ranges, ports without endpoints and closed ports are decided
 * there as in nftables mode. What the engine does with connections is known to this process only.
 */
class UserspaceKernel extends NftablesKernel {
  override readonly mode = 'userspace';
  readonly #engine: () => EnginePort;
  readonly #servers: EngineServers;
  readonly #turns = new Turns();
  #isEngineOpen = false;

  constructor(node: NodeKernel, openEngine: () => EnginePort, port?: NftPort, observer?: ModeObserver) {
    super(node, port, observer);
    this.#engine = once(() => {
      this.#isEngineOpen = true;
      return openEngine();
    });
    this.#servers = new EngineServers(this.#engine);
  }

  override async ensureDevice(): Promise<{ readonly made: boolean }> {
    const addresses = await this.getNodeAddresses();
    await this.#turns.run(() => this.#servers.useAddresses(addresses));
    return await super.ensureDevice();
  }

  override async apply(tx: Transaction): Promise<Outcome> {
    return await this.#turns.run(() => this.#apply(tx));
  }

  async #apply(tx: Transaction): Promise<Outcome> {
    const changes = await ServerChanges.begin(this.#servers, tx, this.#findRules);
    const outcome = await super.apply(new Transaction(changes.ops));
    await changes.end();
    return { ...outcome, failures: changes.failures(outcome.failures) };
  }

  override async close(): Promise<void> {
    if (this.#isEngineOpen) {
      await this.#turns
        .run(() => this.#handOver())
        .catch((error: unknown) => this.#logFailedHandOver(errorText(error)));
      await this.#engine().close();
    }
    await super.close();
  }

  /** Services are served without this process from now on: the tables lead to endpoints, as in nftables mode. */
  async #handOver(): Promise<void> {
    const served = this.#servers.served;
    for (let at = 0; at < served.length; at += MOST_AT_ONCE)
      await this.#leadToEndpoints(served.slice(at, at + MOST_AT_ONCE));
    this.node.log.info(
      'rules serve new connections from now on; those of the engine go on until they end, for 10 s at most',
    );
    const engine = this.#engine();
    await engine.stopListening();
    for (const family of await this.families()) {
      const flows = (await this.node.getUdpFlows(family)).filter((flow) => this.#leadsToEngine(flow));
      if (flows.length > 0) await this.node.deleteFlows(flows);
    }
    await engine.drain();
  }

  /** Leaves those alone that do not lead to the engine of this process. */
  async #leadToEndpoints(servers: readonly ForwardedServer[]): Promise<void> {
    const ids = servers.map(({ virtualServer }) => virtualServer);
    const found = await super.getRealServers(ids, this.#expectedRules(ids));
    const ops = servers.flatMap((server) => {
      const target = this.#servers.target(server);
      const endpoints = found.get(virtualServerKey(server.virtualServer)) ?? [];
      return target === undefined || !leadsTo(endpoints, target) ? [] : handOverOps(server, target);
    });
    const { failures } = await super.apply(new Transaction(ops));
    for (const failure of failures) this.#logFailedHandOver(formatFailure(failure));
  }

  #logFailedHandOver(reason: string): void {
    this.node.log.error(`failed to write rules that serve without this process: ${reason}`);
  }

  override probeScheduler(scheduler: string): Promise<void> {
    if (isScheduler(scheduler)) return Promise.resolve();
    const message = 'userspace mode has the schedulers rr, wrr, lc and wlc';
    return Promise.reject(new KernelError('probeScheduler', 'EOPNOTSUPP', message));
  }

  override async getVirtualServers(without?: ReadonlySet<IpFamily>): Promise<VirtualServer[]> {
    return (await super.getVirtualServers(without)).map((server) => this.#asKnown(server));
  }

  override async findVirtualServers(
    ids: readonly (VirtualServerId & Pick<VirtualServer, 'traits'>)[],
  ): Promise<Map<VirtualServerKey, VirtualServer>> {
    const found = await super.findVirtualServers(ids);
    return new Map(Array.from(found, ([key, server]) => [key, this.#asKnown(server)]));
  }

  /** One that this process does not know, or that the table has otherwise, differs from every planned one. */
  #asKnown(found: VirtualServer): VirtualServer {
    const known = this.#servers.get(found)?.virtualServer;
    return known !== undefined && hasSameSettings(found, ruleServer(known)) ? known : found;
  }

  /** Where the table leads elsewhere, all have weight 0: none of them gets connections. */
  override async getRealServers(
    ids: readonly VirtualServerId[],
    expected?: ExpectedServers,
  ): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    const found = await super.getRealServers(ids, expected && this.#expectedRules(ids));
    return new Map(
      ids.flatMap((id): [VirtualServerKey, ObservedRealServer[]][] => {
        const key = virtualServerKey(id);
        const endpoints = found.get(key);
        if (endpoints === undefined) return [];
        const known = this.#servers.get(id);
        if (known === undefined) return [[key, endpoints.map(withoutWeight)]];
        const list = Array.from(known.realServers.values(), observed);
        if (leadsTo(endpoints, this.#servers.target(known))) return [[key, list]];
        return [[key, (list.length === 0 ? endpoints : list).map(withoutWeight)]];
      }),
    );
  }

  #expectedRules(ids: readonly VirtualServerId[]): ExpectedServers {
    return new Map(
      ids.flatMap((id) => {
        const known = this.#servers.get(id);
        const target = known && this.#servers.target(known);
        return known === undefined ? [] : [[virtualServerKey(id), target === undefined ? [] : [target]] as const];
      }),
    );
  }

  override readonly getVirtualServerStats: Kernel['getVirtualServerStats'] = (ids) =>
    this.#traffic(ids, ({ counters }) => statsOf(counters));

  override readonly getRealServerStats: Kernel['getRealServerStats'] = (ids) => this.#traffic(ids, endpointStatsOf);

  async #traffic<T>(
    ids: readonly VirtualServerId[] | undefined,
    stats: (traffic: PortTraffic) => T,
  ): Promise<Map<VirtualServerKey, T>> {
    const traffic = this.#isEngineOpen ? await this.#engine().traffic(ids?.map(engineKey)) : undefined;
    if (traffic === undefined) return new Map();
    return trafficOf(traffic, ids ?? this.#servers.served.map(({ virtualServer }) => virtualServer), stats);
  }

  /** The flows of clients to the engine are translated as they must be, whatever the endpoints are. */
  override readonly getUdpFlows: Kernel['getUdpFlows'] = async (family) =>
    (await this.node.getUdpFlows(family)).filter((flow) => !this.#leadsToEngine(flow));

  #leadsToEngine({ destination, destinationPort, protocol, replySource, replySourcePort }: Flow): boolean {
    const server = this.#servers.get({ address: destination, port: destinationPort, protocol });
    const target = server && this.#servers.target(server);
    return target?.address === replySource && target.port === replySourcePort;
  }

  override watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    const check = async (): Promise<void> => {
      if (this.#servers.mustMove(await this.getNodeAddresses()))
        onStateLost('the addresses of the engine have changed');
    };
    return super.watchNode(() => {
      onChange();
      // If the addresses cannot be read now, the next full check reads them.
      void check().catch(() => undefined);
    }, onStateLost);
  }

  override async preview(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
    const written = await ruleParts(this.#servers.copy(), parts, this.#findRules);
    return withEngine(await super.preview(rules, written), parts);
  }

  readonly #findRules: FindRules = async (units) => {
    const ids = units.map(({ id, ops }) => ({ ...id, ...traitsIn(ops) }));
    const servers = await super.findVirtualServers(ids);
    const endpoints = await super.getRealServers([...servers.values()], this.#expectedRules(ids));
    return new Map(
      Array.from(servers, ([key, virtualServer]) => [key, { virtualServer, endpoints: endpoints.get(key) ?? [] }]),
    );
  };
}

/** The traits that the table may have. */
function traitsIn(ops: readonly ServerOp[]): Pick<VirtualServer, 'traits'> {
  const traits = ops.flatMap((op) => ('virtualServer' in op ? [op.virtualServer.traits] : [])).at(-1);
  return traits === undefined ? {} : { traits };
}

function observed(server: RealServer): ObservedRealServer {
  return { ...realServerOf(server), ...server, forwarding: FORWARDING.nat };
}

function withoutWeight(server: ObservedRealServer): ObservedRealServer {
  return { ...server, weight: 0 };
}
