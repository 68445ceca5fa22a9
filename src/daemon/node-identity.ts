import { hostname } from 'node:os';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { Cluster } from '../model/cluster.ts';
import { nodeIps } from '../model/node.ts';
import { type Cidr, cidrFamily, cidrOf } from '../net/cidr.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily, isIp4, isLoopback } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { LocalDetector, PlanConfig } from '../plan/plan-config.ts';
import type { Clock } from '../reconcile/clock.ts';
import { StartupError } from './startup-error.ts';

/** How long to wait for our Node object to report addresses, and (NodeCIDR mode) pod CIDRs; as kube-proxy. */
const ADDRESSES_WITHIN_MS = 30_000;
const POD_CIDRS_WITHIN_MS = 5 * 60_000;
const POLL_MS = 10;

/** Our Node's name: --hostname-override or the host's, trimmed and lower-cased. */
export function nodeNameOf(config: ProxyConfig): string {
  const name = config.hostnameOverride ?? hostname().trim().toLowerCase();
  if (name === '') throw new StartupError('this host has no name: give --hostname-override');
  return name;
}

/** Waits for what the plan needs of our Node object; without a Node in reach (standalone manifests) there is none to wait for. */
export async function waitForNode(
  cluster: Cluster,
  config: ProxyConfig,
  clock: Clock,
  signal: AbortSignal,
  log: Log,
): Promise<void> {
  // A directory is read whole at once: a Node that is not there then is not coming.
  const nobodyComes = (): boolean => config.manifests !== undefined && cluster.synced();
  const has = async (ready: () => boolean, withinMs: number): Promise<boolean> => {
    await waitUntil(() => ready() || nobodyComes(), withinMs, clock, signal);
    return ready();
  };
  const addressed = await has(() => (cluster.node()?.reportedAddresses.length ?? 0) > 0, ADDRESSES_WITHIN_MS);
  if (!addressed && !signal.aborted && config.manifests === undefined) {
    log.warn(
      'our Node object reports no address yet; going on without: check --hostname-override against kubectl get nodes',
    );
  }
  if (config.detectLocalMode !== 'NodeCIDR' || signal.aborted) return;
  if (!(await has(() => (cluster.node()?.podCidrs.length ?? 0) > 0, POD_CIDRS_WITHIN_MS)) && !signal.aborted) {
    throw new StartupError(
      'detectLocalMode NodeCIDR needs spec.podCIDRs in our Node object, and there are none: let the controller manager ' +
        'allocate them (--allocate-node-cidrs), or choose another --detect-local-mode',
    );
  }
}

async function waitUntil(ready: () => boolean, withinMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  const deadline = clock.now() + withinMs;
  while (!ready() && !signal.aborted && clock.now() < deadline) {
    await new Promise<void>((resolve) => {
      clock.setTimer(resolve, POLL_MS);
    });
  }
}

/** What planning needs of the configuration and of the node as it was at start. */
export function planConfigOf(
  config: ProxyConfig,
  nodeName: string,
  families: readonly IpFamily[],
  cluster: Cluster,
): PlanConfig {
  const node = cluster.node();
  const own = nodeIps(node?.reportedAddresses ?? [], config.nodeIpOverride);
  const cidrs = config.detectLocalMode === 'NodeCIDR' ? (node?.podCidrs ?? []) : config.clusterCidrs;
  return {
    scheduler: config.scheduler,
    families,
    nodeName,
    nodePortAddresses: config.nodePortAddresses === 'primary' ? primary(own) : config.nodePortAddresses,
    masqueradeAll: config.masqueradeAll,
    masqueradeMark: (1 << config.masqueradeBit) >>> 0,
    localDetectors: localDetectors(config, families, cidrs),
    ...(config.masqueradePorts === undefined ? {} : { masqueradePorts: config.masqueradePorts }),
    unboundCidrs: config.unboundCidrs,
    localRouteCidrs: config.localRouteCidrs,
    // Since iptables 1.6.2 (2018).
    randomFully: true,
  };
}

/** For clean-up: names of chains and sets depend on nothing that is known only on a running node. */
export function planConfigForCleanUp(config: ProxyConfig): PlanConfig {
  return planConfigOf(
    { ...config, detectLocalMode: 'ClusterCIDR', clusterCidrs: [] },
    '',
    IP_FAMILIES,
    new Cluster(''),
  );
}

function primary(own: readonly IpAddress[]): readonly Cidr[] {
  return own.filter((address) => !isLoopback(address)).map((address) => cidrOf(address, isIp4(address) ? 32 : 128));
}

function localDetectors(
  config: ProxyConfig,
  families: readonly IpFamily[],
  cidrs: readonly Cidr[],
): Partial<Record<IpFamily, LocalDetector>> {
  const detectors: Partial<Record<IpFamily, LocalDetector>> = {};
  for (const family of families) {
    const detector = localDetector(
      config,
      cidrs.find((cidr) => cidrFamily(cidr) === family),
    );
    if (detector !== undefined) detectors[family] = detector;
  }
  return detectors;
}

function localDetector(config: ProxyConfig, cidr: Cidr | undefined): LocalDetector | undefined {
  switch (config.detectLocalMode) {
    case 'ClusterCIDR':
    case 'NodeCIDR':
      return cidr === undefined ? undefined : { kind: 'cidr', cidr };
    case 'BridgeInterface':
      return { kind: 'bridge', interfaceName: config.bridgeInterface };
    case 'InterfaceNamePrefix':
      return { kind: 'interface-prefix', prefix: config.interfaceNamePrefix };
  }
}
