import type { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { ConnectResult } from '../../src/endpoint-check/endpoint-state.ts';
import { EndpointChecker, type EndpointCheckerOptions } from '../../src/daemon/endpoint-check/endpoint-checker.ts';
import { readLeftSilent } from '../../src/daemon/endpoint-check/left-silent.ts';
import type { EndpointSlice, Service } from '../../src/kube/objects/objects.ts';
import { formatIp } from '../../src/base/ip.ts';
import type { RealServer } from '../../src/state/real-server.ts';
import { meta, service, slice } from './objects.ts';
import { Reconciling } from './reconciling.ts';

const STEP_MS = 100;
const TICK_MS = 2_000;

/** A Service whose endpoints are checked. */
export function checkedService(name: string, clusterIp: string, change: Partial<Service> = {}): Service {
  return service(name, clusterIp, {
    annotations: [{ name: 'endpoint-check', value: 'true' }],
    ...change,
    meta: meta(name),
  });
}

export function endpointsOf(name: string, addresses: readonly string[]): EndpointSlice {
  return slice(name, addresses);
}

/** A reconciler and a checker of endpoints on a fake kernel whose virtual servers all have clients. */
export class CheckedEndpoints {
  readonly kernel: FakeKernel;
  readonly run: Reconciling;
  readonly checker: EndpointChecker;
  /** Addresses of endpoints that answer nobody. */
  readonly silent = new Set<string>();
  /** Addresses of endpoints that do not answer this node, but their clients. */
  readonly closedToNode = new Set<string>();
  /** Whether this node has lost its link to all endpoints. */
  isUnplugged = false;
  /** Whether the clients are idle. */
  isIdle = false;
  /** Connects to each address. */
  readonly connects: string[] = [];
  /** Calls of onSilent. */
  readonly told: string[] = [];
  #passed = 0;

  private constructor(kernel: FakeKernel, change: Partial<EndpointCheckerOptions>) {
    this.kernel = kernel;
    const late: { run?: Reconciling } = {};
    const checker = new EndpointChecker({
      acts: true,
      kernel,
      clock: {
        now: () => this.run.clock.now(),
        wallNow: () => 0,
        setTimer: (...timer) => this.run.clock.setTimer(...timer),
      },
      log: { ...noLog, warn: (line) => this.run.log.warn(line), info: (line) => this.run.log.info(line) },
      left: new Map(),
      connect: ({ address }, ms) => this.#connect(formatIp(address), ms),
      hasLinkTo: () => Promise.resolve(!this.isUnplugged),
      ownerOf: (key) => late.run?.reconciler.plan.ownerOf(key),
      onJudged: (services) => late.run?.reconciler.endpointsJudged(services),
      onSilent: (name, silent, all) => this.told.push(`${name} ${silent}/${all}`),
      onConnected: () => undefined,
      ...change,
    });
    this.checker = checker;
    this.run = late.run = new Reconciling(kernel, { endpointVerdicts: checker });
  }

  /** Starts, on a kernel that may have the objects of an earlier run. */
  static async on(kernel: FakeKernel, change: Partial<EndpointCheckerOptions> = {}): Promise<CheckedEndpoints> {
    await kernel.prepare();
    return new CheckedEndpoints(kernel, { left: await readLeftSilent(kernel), ...change });
  }

  /** Lets time pass. The kernel sums up its counters every two seconds. */
  async pass(ms: number): Promise<void> {
    for (const end = this.#passed + ms; this.#passed < end; this.#passed += STEP_MS) {
      if (this.#passed % TICK_MS === 0 && !this.isIdle) this.#count();
      this.run.clock.advance(STEP_MS);
      for (let turns = 0; turns < 4; turns++) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The real servers of each virtual server. */
  get servers(): readonly (readonly RealServer[])[] {
    return Array.from(this.kernel.tables.virtualServers.values(), ({ realServers }) => [...realServers.values()]);
  }

  /** The weight of each real server, by its address; of a Service that has one virtual server. */
  weights(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.servers.flat().map(({ address, weight }) => [formatIp(address), weight]));
  }

  /** Each real server that may get connections gets two, and an established one goes on. */
  #count(): void {
    for (const { virtualServer, stats, realServers, realServerStats } of this.kernel.tables.virtualServers.values()) {
      this.kernel.setStats(virtualServer, { incomingPackets: stats.incomingPackets + 10 * realServers.size });
      for (const [key, server] of realServers) {
        const { connections = 0, incomingPackets = 0, outgoingPackets = 0 } = realServerStats.get(key) ?? {};
        const isSilent = this.silent.has(formatIp(server.address)) || this.isUnplugged;
        this.kernel.setRealServerStats(virtualServer, server, {
          connections: connections + (server.weight > 0 ? 2 : 0),
          incomingPackets: incomingPackets + 10,
          outgoingPackets: outgoingPackets + (isSilent ? 0 : 9),
        });
      }
    }
  }

  #connect(address: string, ms: number): Promise<ConnectResult> {
    this.connects.push(address);
    const isSilent = this.silent.has(address) || this.closedToNode.has(address) || this.isUnplugged;
    const { promise, resolve } = Promise.withResolvers<ConnectResult>();
    this.run.clock.setTimer(() => resolve(isSilent ? 'unanswered' : 'answered'), isSilent ? ms : 1);
    return promise;
  }
}

const noLog = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  enabled: () => false,
  child: () => noLog,
};
