import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Log } from '../../observe/log.ts';
import type { Clock } from '../../reconcile/clock.ts';
import { StartupError } from './startup-error.ts';

/** How long to wait for our Node object to report addresses, and (NodeCIDR mode) pod CIDRs; as in kube-proxy. */
const ADDRESSES_WITHIN_MS = 30_000;
const POD_CIDRS_WITHIN_MS = 5 * 60_000;
const POLL_MS = 10;

const CHECK_NAME = 'check --hostname-override against kubectl get nodes';

export interface NodeWaitOptions {
  readonly cluster: Pick<Cluster, 'node' | 'nodeListed' | 'synced'>;
  readonly config: Pick<ProxyConfig, 'detectLocalMode' | 'manifests'>;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Waits until our Node object reports what the plan needs. On a timeout, names what is missing. */
export class NodeWait {
  readonly #options: NodeWaitOptions;
  #saidMissing = false;

  constructor(options: NodeWaitOptions) {
    this.#options = options;
  }

  /** @throws StartupError in NodeCIDR mode without pod CIDRs: local traffic could not be detected */
  async run(): Promise<void> {
    const { cluster, config, signal } = this.#options;
    const needsPodCidrs = config.detectLocalMode === 'NodeCIDR';
    const addressed = await this.#has(() => (cluster.node()?.reportedAddresses.length ?? 0) > 0, ADDRESSES_WITHIN_MS);
    if (!addressed && !signal.aborted && !needsPodCidrs) this.#warn();
    if (!needsPodCidrs || signal.aborted) return;
    const known = await this.#has(() => (cluster.node()?.podCidrs.length ?? 0) > 0, POD_CIDRS_WITHIN_MS);
    if (!known && !signal.aborted) throw new StartupError(this.#podCidrsMissing());
  }

  async #has(ready: () => boolean, withinMs: number): Promise<boolean> {
    const { clock, signal } = this.#options;
    const deadline = clock.now() + withinMs;
    while (!ready() && !this.#nobodyComes() && !signal.aborted && clock.now() < deadline) {
      this.#sayMissing(withinMs);
      await new Promise<void>((resolve) => {
        clock.setTimer(resolve, POLL_MS);
      });
    }
    return ready();
  }

  /** Returns whether a manifest directory has been read: a Node that is missing there is not waited for. */
  #nobodyComes(): boolean {
    return this.#fromManifests && this.#options.cluster.synced();
  }

  get #fromManifests(): boolean {
    return this.#options.config.manifests !== undefined;
  }

  get #missing(): boolean {
    const { cluster } = this.#options;
    return cluster.nodeListed() && cluster.node() === undefined;
  }

  /** Warns before the timeout: a kubelet may still create the Node, but waiting does not fix a wrong name. */
  #sayMissing(withinMs: number): void {
    if (this.#saidMissing || !this.#missing || this.#fromManifests) return;
    this.#saidMissing = true;
    const { log, nodeName } = this.#options;
    log.warn(`there is no Node named ${nodeName} in the cluster; waiting ${withinMs / 1000} s for it: ${CHECK_NAME}`);
  }

  #warn(): void {
    const { cluster, config, nodeName, log } = this.#options;
    if (this.#missing) {
      const where = this.#fromManifests ? `in the manifests of ${config.manifests}` : 'in the cluster';
      const check = this.#fromManifests ? 'check --hostname-override, or add the Node' : CHECK_NAME;
      log.warn(
        `there is no Node named ${nodeName} ${where}: continuing without its zone and addresses, and /healthz answers 503 until it comes; ${check}`,
      );
    } else if (!this.#fromManifests) {
      log.warn(
        cluster.node() === undefined
          ? `our Node ${nodeName} has not been read from the API server yet: continuing without its addresses`
          : `our Node ${nodeName} reports no address yet: continuing without`,
      );
    }
  }

  #podCidrsMissing(): string {
    const { cluster, nodeName } = this.#options;
    const needs = 'detectLocalMode NodeCIDR needs spec.podCIDRs in our Node object';
    if (this.#missing) return `${needs}, and there is no Node named ${nodeName}: ${CHECK_NAME}`;
    if (cluster.node() === undefined) {
      return `${needs}, and our Node ${nodeName} could not be read: see the log lines about the API server or the manifests above`;
    }
    return (
      `${needs}, and there are none: let the controller manager allocate them (--allocate-node-cidrs), or choose another ` +
      '--detect-local-mode'
    );
  }
}
