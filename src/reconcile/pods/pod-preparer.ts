import { errorText } from '../../base/text/error-text.ts';
import { type IpAddress, formatIp, isIp4 } from '../../base/ip.ts';
import { diffPod, isOurs, podAddresses, preparedAddresses } from '../../diff/pod-diff.ts';
import type { PodNamespace, PodNamespaces } from '../../kernel/pod-namespaces.ts';
import type { Log } from '../../observe/log/log.ts';
import type { PlanWarning } from '../../plan/service-plan.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import { formatEncapsulation } from '../../base/service/service-requests.ts';
import { type DirectPod, formatPodOp } from '../../state/pod-network.ts';
import type { Clock } from '../timing/clock.ts';
import type { PodInterfaces } from './pod-interfaces.ts';
import { type NamespaceClaim, PodOwners, type SettledOwners } from './pod-owners.ts';
import { WarningLog } from '../desired/warning-log.ts';

export interface PodPreparerOptions {
  readonly namespaces: PodNamespaces;
  readonly interfaces: PodInterfaces;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly onWarning: (service: NamespacedName, warning: PlanWarning) => void;
}

const NONE: ReadonlySet<IpAddress> = new Set();
/** Number of a Pod's addresses that a message names: it may give itself thousands. */
const SHOWN_ADDRESSES = 2;

interface Findings extends SettledOwners {
  /** Interfaces of the node: to all Pods, and to those that have something of ours although no Service asks for it. */
  readonly seen: Set<string>;
  readonly kept: Set<string>;
  /** Why the namespace of a Pod could not be changed. */
  readonly refused: Map<IpAddress, string>;
  /** Why a namespace keeps something of ours that no Service asks for, by its Pod's addresses. */
  readonly stuck: Map<string, string>;
}

/**
 * Prepares the network namespaces of Pods on this node that answer clients of service addresses themselves, and takes
 * back what no Service asks for any more. It reads what a namespace has each time, so it adopts what an earlier process
 * made.
 */
export class PodPreparer {
  readonly #options: PodPreparerOptions;
  readonly #warnings: WarningLog;
  readonly #owners = new PodOwners();
  #running: Promise<void> = Promise.resolve();
  #waiting: readonly DirectPod[] | undefined;
  #done = '';
  #reported: ReadonlySet<string> = new Set();

  constructor(options: PodPreparerOptions) {
    this.#options = options;
    this.#warnings = new WarningLog(options.log, options.clock);
  }

  /** Starts a run if these Pods differ from those of the last run or, with `full`, in any case. */
  request(wanted: readonly DirectPod[], full: boolean): void {
    const key = wanted.map(describe).join();
    if (!full && key === this.#done) return;
    this.#done = key;
    const idle = this.#waiting === undefined;
    this.#waiting = wanted;
    if (idle) this.#running = this.#running.then(() => this.#runWaiting());
  }

  /** Takes everything back, even if connections break, and resolves when that is done. */
  async withdrawAll(): Promise<void> {
    const { stuck } = await this.#run([], true);
    const sentences = Array.from(stuck, ([pod, why]) => `Pod ${pod}: ${why}`);
    if (sentences.length > 0) throw new Error(sentences.join('; '));
  }

  /** Waits for the run in progress. The Pods keep what they have. */
  async stop(): Promise<void> {
    await this.#running;
  }

  async #runWaiting(): Promise<void> {
    const wanted = this.#waiting ?? [];
    this.#waiting = undefined;
    try {
      await this.#run(wanted, false);
    } catch (error) {
      this.#options.log.error(`Pods cannot be prepared; the next full check tries again: ${errorText(error)}`);
    }
  }

  async #run(wanted: readonly DirectPod[], evenConnected: boolean): Promise<Findings> {
    const { namespaces, interfaces } = this.#options;
    const pods = new Set(wanted.map(({ pod }) => pod));
    const ways = await interfaces.waysTo([...pods]);
    const { claims, ours } = await this.#survey(pods);
    const { owners, refused, contested } = this.#owners.settle(pods, ways, claims);
    const seen = new Set(claims.flatMap((claim) => claim.interfaces));
    const kept = new Set(claims.filter(({ path }) => contested.has(path)).flatMap((claim) => claim.interfaces));
    const findings: Findings = { owners, refused: new Map(refused), contested, seen, kept, stuck: new Map() };
    const concerned = new Set([...owners.values(), ...ours].filter((path) => !contested.has(path)));
    await namespaces.each(async (namespace) => {
      const own = wanted.filter(({ pod }) => owners.get(pod) === namespace.path);
      await this.#visit(namespace, own, evenConnected, findings);
    }, concerned);
    const opened = [...owners.keys()].filter(isIp4).flatMap((pod) => ways.get(pod) ?? []);
    await interfaces.update(new Set(opened), kept, seen);
    this.#report(wanted, findings);
    return findings;
  }

  /** Returns which namespaces have addresses of these Pods, and the paths of those that have devices of ours. */
  async #survey(
    pods: ReadonlySet<IpAddress>,
  ): Promise<{ readonly claims: NamespaceClaim[]; readonly ours: Set<string> }> {
    const claims: NamespaceClaim[] = [];
    const ours = new Set<string>();
    await this.#options.namespaces.each(async (namespace) => {
      const { path, interfaces } = namespace;
      try {
        const devices = await namespace.getDevices();
        const addresses = podAddresses(devices).filter((address) => pods.has(address));
        claims.push({ path, interfaces, addresses });
        if (devices.some(({ name }) => isOurs(name))) ours.add(path);
      } catch (error) {
        // The Pod may have ended meanwhile.
        this.#options.log.debug(2, `failed to read the devices of a Pod: ${errorText(error)}`);
      }
    });
    return { claims, ours };
  }

  /** @param wanted what the Pod of this namespace must have */
  async #visit(
    namespace: PodNamespace,
    wanted: readonly DirectPod[],
    evenConnected: boolean,
    { refused, stuck, kept }: Findings,
  ): Promise<void> {
    let label = namespace.path;
    const fail = (why: string): void => {
      for (const { pod } of wanted) refused.set(pod, why);
      if (wanted.length === 0) stuck.set(label, why);
    };
    try {
      const devices = await namespace.getDevices();
      label = podAddresses(devices).slice(0, SHOWN_ADDRESSES).map(formatIp).join(' ');
      const surplus = preparedAddresses(devices).filter((found) => !wanted.some(({ address }) => address === found));
      const connected = surplus.length === 0 || evenConnected ? NONE : await namespace.getConnectedAddresses();
      if (surplus.some((address) => connected.has(address))) for (const name of namespace.interfaces) kept.add(name);
      const guePorts = await namespace.getGuePorts();
      const ops = diffPod(wanted, { devices, guePorts, connected });
      if (ops.length === 0) return;
      const failures = await namespace.apply(ops);
      this.#options.log.debug(1, 'changed the network of a Pod, which answers clients without NAT', {
        pod: label,
        changes: ops.map(formatPodOp),
      });
      if (failures.length > 0) fail(failures.join('; '));
    } catch (error) {
      // The Pod may have ended meanwhile.
      fail(errorText(error));
    }
  }

  /** Warns once for each Pod and Service, until the reason changes. */
  #report(wanted: readonly DirectPod[], { refused, stuck }: Findings): void {
    const reported = new Set<string>();
    const isNew = (key: string): boolean => !reported.has(key) && !this.#reported.has(key);
    for (const { service, pod } of wanted) {
      const why = refused.get(pod);
      if (why === undefined) continue;
      const message = `Pod ${formatIp(pod)} is not prepared to answer clients without NAT: ${why}`;
      const key = `${service} ${message}`;
      const warning = { reason: 'pod-not-prepared', message };
      if (isNew(key)) {
        this.#warnings.warn(service, warning);
        this.#options.onWarning(service, warning);
      }
      reported.add(key);
    }
    for (const [pod, why] of stuck) {
      const message = `Pod ${pod} keeps a service address that no Service asks for: ${why}`;
      if (isNew(message)) this.#options.log.warn(message);
      reported.add(message);
    }
    this.#reported = reported;
  }
}

function describe({ service, pod, address, method, encapsulation }: DirectPod): string {
  return `${service} ${formatIp(pod)} ${formatIp(address)} ${method} ${formatEncapsulation(encapsulation)}`;
}
