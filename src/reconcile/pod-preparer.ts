import { errorText } from '../base/error-text.ts';
import { type Ip4, type IpAddress, formatIp, isIp4 } from '../base/ip.ts';
import { diffPod, isOurs, podAddresses, preparedAddresses } from '../diff/pod-diff.ts';
import type { PodNamespace, PodNamespaces } from '../kernel/pod-namespaces.ts';
import type { Log } from '../observe/log.ts';
import type { PlanWarning } from '../plan/service-plan.ts';
import type { NamespacedName } from '../base/names.ts';
import { formatEncapsulation } from '../base/service-requests.ts';
import { type DirectPod, formatPodOp } from '../state/pod-network.ts';
import type { Clock } from './clock.ts';
import type { PodInterfaces } from './pod-interfaces.ts';
import { WarningLog } from './warning-log.ts';

export interface PodPreparerOptions {
  readonly namespaces: PodNamespaces;
  readonly interfaces: PodInterfaces;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly onWarning: (service: NamespacedName, warning: PlanWarning) => void;
}

const NONE: ReadonlySet<IpAddress> = new Set();

/** What one run found. */
interface Findings {
  /** IPv4 addresses of Pods that have something of ours, and of Pods from which the last was taken. */
  readonly prepared: Ip4[];
  readonly withdrawn: Ip4[];
  /** Pods whose namespace was seen. */
  readonly seen: Set<IpAddress>;
  /** Why a namespace could not be changed, by address of its Pod. */
  readonly failed: Map<IpAddress, string>;
}

/**
 * Prepares the network namespaces of Pods on this node that answer clients of service addresses themselves, and takes
 * back what no Service asks for any more. It reads what a namespace has each time, so it adopts what an earlier process
 * made.
 */
export class PodPreparer {
  readonly #options: PodPreparerOptions;
  readonly #warnings: WarningLog;
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
    const { failed } = await this.#run([], true);
    const sentences = Array.from(failed, ([pod, why]) => `Pod ${formatIp(pod)}: ${why}`);
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
    const findings: Findings = { prepared: [], withdrawn: [], seen: new Set(), failed: new Map() };
    await namespaces.each(async (namespace) => {
      await this.#visit(namespace, wanted, evenConnected, findings);
    });
    await interfaces.update(findings.prepared, findings.withdrawn);
    this.#report(wanted, findings);
    return findings;
  }

  async #visit(
    namespace: PodNamespace,
    all: readonly DirectPod[],
    evenConnected: boolean,
    { prepared, withdrawn, seen, failed }: Findings,
  ): Promise<void> {
    let own: readonly IpAddress[] = [];
    try {
      const devices = await namespace.getDevices();
      own = podAddresses(devices);
      for (const address of own) seen.add(address);
      const wanted = all.filter(({ pod }) => own.includes(pod));
      if (wanted.length === 0 && !devices.some(({ name }) => isOurs(name))) return;
      const had = preparedAddresses(devices);
      const leaving = had.filter((address) => !wanted.some((each) => each.address === address));
      const connected = leaving.length === 0 || evenConnected ? NONE : await namespace.getConnectedAddresses();
      const kept = wanted.length > 0 || leaving.some((address) => connected.has(address));
      if (kept) prepared.push(...own.filter(isIp4));
      else if (had.length > 0) withdrawn.push(...own.filter(isIp4));
      const guePorts = await namespace.getGuePorts();
      const ops = diffPod(wanted, { devices, guePorts, connected });
      if (ops.length === 0) return;
      const failures = await namespace.apply(ops);
      const pod = own.map(formatIp).join(' ');
      this.#options.log.debug(1, 'changed the network of a Pod, which answers clients without NAT', {
        pod,
        changes: ops.map(formatPodOp),
      });
      if (failures.length > 0) for (const address of own) failed.set(address, failures.join('; '));
    } catch (error) {
      // The Pod may have ended meanwhile.
      for (const address of own) failed.set(address, errorText(error));
    }
  }

  /** Warns once for each Pod and Service, until the reason changes. */
  #report(wanted: readonly DirectPod[], { seen, failed }: Findings): void {
    const reported = new Set<string>();
    const isNew = (key: string): boolean => !reported.has(key) && !this.#reported.has(key);
    for (const { service, pod } of wanted) {
      const why = seen.has(pod) ? failed.get(pod) : 'no network namespace has its address';
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
    const asked = new Set(wanted.map(({ pod }) => pod));
    for (const [pod, why] of failed) {
      const message = `Pod ${formatIp(pod)} keeps a service address that no Service asks for: ${why}`;
      if (!asked.has(pod) && isNew(message)) this.#options.log.warn(message);
      reported.add(message);
    }
    this.#reported = reported;
  }
}

function describe({ service, pod, address, method, encapsulation }: DirectPod): string {
  return `${service} ${formatIp(pod)} ${formatIp(address)} ${method} ${formatEncapsulation(encapsulation)}`;
}
