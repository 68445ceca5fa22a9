import { counted } from '../../base/text/counted.ts';
import { errorText } from '../../base/text/error-text.ts';
import { unreachable } from '../../base/unreachable.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import {
  EndpointCheck,
  type Question,
  type SilentEndpoint,
  type Verdict,
} from '../../endpoint-check/endpoint-check.ts';
import { type ConnectResult, type EndpointState, trafficText } from '../../endpoint-check/endpoint-state.ts';
import { LookTiming } from '../../endpoint-check/look-timing.ts';
import { type Looked, NOTHING, TrafficSince } from '../../endpoint-check/traffic-since.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { ServiceModel } from '../../model/service-model.ts';
import type { Log } from '../../observe/log/log.ts';
import { LogOnChange } from '../../observe/log/log-on-change.ts';
import { isCheckable, withShares } from '../../plan/service/endpoint-shares.ts';
import type { ServicePlan } from '../../plan/service-plan.ts';
import type { EndpointVerdicts } from '../../reconcile/desired/endpoint-verdicts.ts';
import { WarningLog } from '../../reconcile/desired/warning-log.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import {
  type Endpoint,
  type RealServerKey,
  formatRealServer,
  realServerKey,
  realServerOf,
} from '../../state/real-server.ts';
import type { VirtualServerStats } from '../../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { LeftSilent } from './left-silent.ts';

/** If at least one in so many virtual servers is wanted, one dump of all costs less than a message for each. */
const DUMP_IS_CHEAPER = 2;
const CONNECT_TIMEOUT_MS = 1_000;
/** The pause after a look is at least so many times as long as the look took. */
const LOOK_SHARE = 10;
/** The shortest time between two looks. */
const LOOK_MS = 500;

export interface EndpointCheckerOptions {
  /** Whether silent endpoints get no new connections. */
  readonly acts: boolean;
  readonly kernel: Pick<KernelReader, 'getTrafficTotals' | 'getVirtualServerStats' | 'getRealServerStats'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Which endpoints an earlier run had found silent. */
  readonly left: LeftSilent;
  readonly connect: (endpoint: Endpoint, timeoutMs: number) => Promise<ConnectResult>;
  readonly hasLinkTo: (address: Endpoint['address']) => Promise<boolean>;
  readonly ownerOf: (key: VirtualServerKey) => NamespacedName | undefined;
  /** Called when the plans of Services are to be changed by verdicts. */
  readonly onJudged: (services: ReadonlySet<NamespacedName>) => void;
  /** Called with the number of silent endpoints of a Service and of all its endpoints. */
  readonly onSilent: (service: NamespacedName, silent: number, all: number) => void;
  readonly onConnected: (result: ConnectResult) => void;
}

/** The part of a Service that is checked. */
interface CheckedService {
  readonly ids: readonly VirtualServerId[];
  readonly endpoints: number;
}

/**
 * Looks for endpoints that do not answer: reads the counters of IPVS, connects to those that seem silent, and tells the
 * plan. It reads nothing while no Service asks for it.
 */
export class EndpointChecker implements EndpointVerdicts {
  readonly #options: EndpointCheckerOptions;
  readonly #check = new EndpointCheck();
  readonly #since = new TrafficSince();
  readonly #timing = new LookTiming();
  readonly #services = new Map<NamespacedName, CheckedService>();
  /** The virtual servers that are read; undefined if Services have changed since the last look. */
  #ids: readonly VirtualServerId[] | undefined;
  readonly #warnings: WarningLog;
  readonly #failure: LogOnChange;
  #left: LeftSilent;
  /** Services that were judged before the first sync ended; undefined after it. */
  #early: Set<NamespacedName> | undefined = new Set();
  #lookedAt = -Infinity;
  #restUntil = -Infinity;
  /** Packets to all virtual servers, as of the last look; undefined if the next one must read all. */
  #packets: number | undefined;
  #grew = false;
  /** How many virtual servers the last dump of all had; 0 before it. */
  #inKernel = 0;
  #looking = false;
  #cancelLook: () => void = () => {};
  #cancelAsk: () => void = () => {};
  #stopped = false;

  constructor(options: EndpointCheckerOptions) {
    this.#options = options;
    this.#left = options.left;
    this.#warnings = new WarningLog(options.log, options.clock);
    this.#failure = new LogOnChange(
      (sentence) => options.log.warn(sentence),
      () => options.log.info('counters of endpoints can be read again'),
    );
  }

  /** Must be called after the first sync. A weight of 0 that comes later is not of an earlier run. */
  start(): void {
    this.#left = new Map();
    const left = [...this.#check.silent()].length;
    if (left > 0) this.#options.log.info(`${counted(left, 'endpoint')} had got no new connections, and is asked again`);
    const early = this.#early ?? new Set();
    this.#early = undefined;
    if (early.size > 0) this.#options.onJudged(early);
    this.#lookIn(this.#timing.next(false));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelLook();
    this.#cancelAsk();
  }

  apply({ requests }: ServiceModel, plan: ServicePlan): ServicePlan {
    const { acts, clock } = this.#options;
    const { service } = plan;
    const checked = requests?.endpointCheck === true ? plan.virtualServers.filter(isCheckable) : [];
    const keys = new Set<RealServerKey>();
    const left = new Set<RealServerKey>();
    for (const { virtualServer, realServers } of checked) {
      const ofServer = this.#left.get(virtualServerKey(virtualServer));
      for (const server of realServers) {
        if (server.weight === 0) continue;
        const key = realServerKey(server);
        keys.add(key);
        if (ofServer?.has(key) === true) left.add(key);
      }
    }
    this.#ids = undefined;
    if (keys.size === 0) this.#services.delete(service);
    else this.#services.set(service, { ids: checked.map(({ virtualServer }) => virtualServer), endpoints: keys.size });
    this.#setEndpoints(service, keys, left);
    if (left.size > 0) this.#askNext();
    return acts ? withShares(plan, this.#check.sharesOf(service, clock.now())) : plan;
  }

  deleted(service: NamespacedName): void {
    this.#ids = undefined;
    this.#services.delete(service);
    this.#setEndpoints(service, new Set());
  }

  silent(): Iterable<SilentEndpoint> {
    return this.#check.silent();
  }

  counts(): Readonly<Record<EndpointState['kind'], number>> {
    return this.#check.counts();
  }

  #setEndpoints(
    service: NamespacedName,
    keys: ReadonlySet<RealServerKey>,
    left: ReadonlySet<RealServerKey> = new Set(),
  ): void {
    const before = this.#check.silentOf(service);
    this.#check.setEndpoints(service, keys, this.#options.clock.now(), (key) => left.has(key));
    const after = this.#check.silentOf(service);
    if (Array.from(before).some((key) => !after.has(key))) this.#tellSilent(service);
  }

  #tellSilent(service: NamespacedName): void {
    const all = this.#services.get(service)?.endpoints ?? 0;
    this.#options.onSilent(service, this.#check.silentOf(service).size, all);
  }

  #lookIn(ms: number): void {
    this.#cancelLook();
    if (!this.#stopped) this.#cancelLook = this.#options.clock.setTimer(() => void this.#look(), ms);
  }

  /** Looks as soon as may be, because a verdict waits for it. */
  #lookSoon(): void {
    if (this.#looking) return;
    const at = Math.max(this.#lookedAt + LOOK_MS, this.#restUntil);
    this.#lookIn(Math.max(0, at - this.#options.clock.now()));
  }

  async #look(): Promise<void> {
    const { acts, clock, onJudged } = this.#options;
    const beganAt = clock.now();
    let grew = false;
    this.#looking = true;
    try {
      grew = await this.#readCounters();
      this.#failure.end();
    } catch (error) {
      this.#failure.say(`failed to read the counters of endpoints: ${errorText(error)}`);
    }
    this.#looking = false;
    const grown = this.#check.takeGrown(clock.now());
    if (acts && grown.size > 0) onJudged(grown);
    const tookMs = clock.now() - beganAt;
    this.#restUntil = clock.now() + LOOK_SHARE * tookMs;
    this.#lookIn(Math.max(this.#timing.next(grew), LOOK_SHARE * tookMs));
  }

  /** Returns whether any packet has come since the last look. */
  async #readCounters(): Promise<boolean> {
    const { clock } = this.#options;
    const ids = (this.#ids ??= this.#followed());
    if (ids.length === 0) return false;
    const beganAt = clock.now();
    this.#lookedAt = beganAt;
    const looked = await this.#trafficOf(ids);
    this.#tell(this.#check.looked(looked, beganAt, clock.now()));
    this.#askNext();
    return this.#grew;
  }

  /** Follows the virtual servers that the Services have, and returns them. */
  #followed(): readonly VirtualServerId[] {
    const { ownerOf } = this.#options;
    const services = new Map<NamespacedName, readonly VirtualServerId[]>();
    for (const [service, { ids }] of this.#services) {
      const own = ids.filter((id) => ownerOf(virtualServerKey(id)) === service);
      if (own.length > 0) services.set(service, own);
    }
    this.#since.follow(services);
    this.#packets = undefined;
    return [...services.values()].flat();
  }

  /** One small read shows that no packet has come at all. Counters of servers may be summed up later than their total. */
  async #trafficOf(ids: readonly VirtualServerId[]): Promise<Looked> {
    const { kernel } = this.#options;
    const packets = (await kernel.getTrafficTotals())?.incomingPackets;
    if (packets === this.#packets && !this.#grew) return NOTHING;
    this.#packets = undefined;
    const look = this.#since.begin(await this.#statsOf(ids));
    const read = look.ids.length === 0 ? new Map<never, never>() : await kernel.getRealServerStats(look.ids);
    this.#grew = look.grew;
    this.#packets = packets;
    return this.#since.end(look, read);
  }

  async #statsOf(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    const { kernel } = this.#options;
    if (this.#inKernel >= ids.length * DUMP_IS_CHEAPER) return kernel.getVirtualServerStats(ids);
    const all = await kernel.getVirtualServerStats();
    this.#inKernel = all.size;
    return all;
  }

  #askNext(): void {
    const { clock } = this.#options;
    this.#cancelAsk();
    const dueAt = this.#check.dueAt(clock.now());
    if (this.#stopped || dueAt === Infinity) return;
    this.#cancelAsk = clock.setTimer(() => this.#ask(), Math.max(0, dueAt - clock.now()));
  }

  #ask(): void {
    for (const question of this.#check.takeDue(this.#options.clock.now())) void this.#connect(question);
    this.#askNext();
  }

  async #connect(question: Question): Promise<void> {
    const { clock, onConnected } = this.#options;
    const result = await this.#resultOf(realServerOf(question.key));
    if (this.#stopped) return;
    onConnected(result);
    this.#tell(this.#check.connected(question, result, clock.now()));
    if (this.#check.awaitsLook(question)) this.#lookSoon();
    this.#askNext();
  }

  async #resultOf(endpoint: Endpoint): Promise<ConnectResult> {
    const { connect, hasLinkTo, log } = this.#options;
    try {
      const result = await connect(endpoint, CONNECT_TIMEOUT_MS);
      return result === 'unanswered' && !(await hasLinkTo(endpoint.address)) ? 'not-sent' : result;
    } catch (error) {
      log.debug(2, `failed to check an endpoint: ${errorText(error)}`, { endpoint: formatRealServer(endpoint) });
      return 'not-sent';
    }
  }

  #tell(verdicts: readonly Verdict[]): void {
    const { acts, onJudged } = this.#options;
    const services = new Set<NamespacedName>();
    for (const verdict of verdicts) {
      const { service, end } = verdict;
      services.add(service);
      const warning = { reason: 'endpoint-silent', message: textOf(verdict, acts) };
      if (end === undefined) this.#warnings.warn(service, warning);
      else this.#warnings.info(service, warning);
    }
    for (const service of services) this.#tellSilent(service);
    if (!acts || services.size === 0) return;
    if (this.#early === undefined) onJudged(services);
    else for (const service of services) this.#early.add(service);
  }
}

function textOf({ endpoint, end, traffic }: Verdict, acts: boolean): string {
  const name = `endpoint ${formatRealServer(endpoint)}`;
  if (end === undefined) {
    const then = acts ? 'new connections go to others' : 'endpoint-check observes only';
    return `${name} does not answer: ${trafficText(traffic)}, nor did it answer this node; ${then}`;
  }
  const seconds = Math.round(end.afterMs / 1000);
  switch (end.why) {
    case 'answer':
      return `${name} answers again after ${seconds} s`;
    case 'not-sent':
      return `${name} counts as answering after ${seconds} s: this node cannot send connects to it now`;
    case 'trial':
      return `${name} counts as answering on trial: it has not answered for ${seconds} s`;
    default:
      return unreachable(end.why);
  }
}
