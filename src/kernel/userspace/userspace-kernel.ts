import type { IpFamily } from '../../base/ip.ts';
import { Turns } from '../../base/turns.ts';
import type { Preview } from '../../state/commands/write-preview.ts';
import type { Op, ServerOp } from '../../state/op.ts';
import type { Outcome } from '../../state/outcome.ts';
import type { ObservedRealServer, RealServer } from '../../state/real-server.ts';
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
import type { EnginePort } from './engine-port.ts';
import { EngineServers } from './engine-servers.ts';
import { ruleParts, withEngine } from './preview.ts';
import { leadsTo, ruleServer } from './rule-ops.ts';
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
    if (this.#isEngineOpen) await this.#engine().close();
    await super.close();
  }

  override probeScheduler(scheduler: string): Promise<void> {
    if (isScheduler(scheduler)) return Promise.resolve();
    const message = 'userspace mode has the schedulers rr, wrr and lc';
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
  return { ...realServerOf(server), weight: server.weight };
}

function withoutWeight(server: ObservedRealServer): ObservedRealServer {
  return { ...server, weight: 0 };
}
