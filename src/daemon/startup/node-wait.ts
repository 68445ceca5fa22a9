import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Log } from '../../observe/log/log.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import { StartupError } from './startup-error.ts';

/** How long to wait for our Node object to report addresses, and (NodeCIDR mode) pod CIDRs; as in kube-proxy. */
const ADDRESSES_WITHIN_MS = 30_000;
const POD_CIDRS_WITHIN_MS = 5 * 60_000;
const POLL_MS = 10;

const CHECK_NAME = 'check --hostname-override against kubectl get nodes';

export interface NodeWaitOptions {
  readonly cluster: Pick<Cluster, 'node' | 'nodeListed' | 'synced'>;
  readonly config: Pick<ProxyConfig, 'detectLocalMode' | 'manifests' | 'nodePortAddresses'>;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/**
 * Waits until our Node object reports what the plan needs. On a timeout, names what is missing.
 * @throws StartupError in NodeCIDR mode without pod CIDRs: local traffic could not be detected
 */
export async function waitForNode(options: NodeWaitOptions): Promise<void> {
  const { cluster, config, nodeName, clock, signal, log } = options;
  let saidMissing = false;
  const has = async (ready: () => boolean, withinMs: number): Promise<boolean> => {
    const deadline = clock.now() + withinMs;
    // A Node that is missing in a manifest directory is not waited for.
    const nobodyComes = (): boolean => config.manifests !== undefined && cluster.synced();
    while (!ready() && !nobodyComes() && !signal.aborted && clock.now() < deadline) {
      // Warns before the timeout: a kubelet may still create the Node, but waiting does not fix a wrong name.
      if (!saidMissing && isMissing(options) && config.manifests === undefined) {
        saidMissing = true;
        const within = `waiting ${withinMs / 1000} s for it`;
        log.warn(`there is no Node named ${nodeName} in the cluster; ${within}: ${CHECK_NAME}`);
      }
      await new Promise<void>((resolve) => {
        clock.setTimer(resolve, POLL_MS);
      });
    }
    return ready() || signal.aborted;
  };
  const addressed = await has(() => (cluster.node()?.reportedAddresses.length ?? 0) > 0, ADDRESSES_WITHIN_MS);
  if (config.detectLocalMode === 'NodeCIDR') {
    const known = await has(() => (cluster.node()?.podCidrs.length ?? 0) > 0, POD_CIDRS_WITHIN_MS);
    if (!known) throw new StartupError(podCidrsMissing(options));
  } else if (!addressed) {
    const warning = addressMissing(options);
    const closed = '; until it reports one, node ports are closed at its primary addresses (nodePortAddresses)';
    if (warning !== undefined) log.warn(`${warning}${config.nodePortAddresses.primary ? closed : ''}`);
  }
}

function isMissing({ cluster }: NodeWaitOptions): boolean {
  return cluster.nodeListed() && cluster.node() === undefined;
}

/** Returns a warning; none for a Node in manifests, which may have no addresses. */
function addressMissing(options: NodeWaitOptions): string | undefined {
  const { cluster, config, nodeName } = options;
  const fromManifests = config.manifests !== undefined;
  if (isMissing(options)) {
    const where = fromManifests ? `in the manifests of ${config.manifests}` : 'in the cluster';
    const check = fromManifests ? 'check --hostname-override, or add the Node' : CHECK_NAME;
    return `there is no Node named ${nodeName} ${where}: continuing without its zone and addresses, and /healthz answers 503 until it comes; ${check}`;
  }
  if (fromManifests) return undefined;
  return cluster.node() === undefined
    ? `our Node ${nodeName} has not been read from the API server yet: continuing without its addresses`
    : `our Node ${nodeName} reports no address yet: continuing without`;
}

function podCidrsMissing(options: NodeWaitOptions): string {
  const { cluster, nodeName } = options;
  const needs = 'detectLocalMode NodeCIDR needs spec.podCIDRs in our Node object';
  if (isMissing(options)) return `${needs}, and there is no Node named ${nodeName}: ${CHECK_NAME}`;
  if (cluster.node() === undefined) {
    return `${needs}, and our Node ${nodeName} could not be read: see the log lines about the API server or the manifests above`;
  }
  return (
    `${needs}, and there are none: let the controller manager allocate them (--allocate-node-cidrs), or choose another ` +
    '--detect-local-mode'
  );
}
