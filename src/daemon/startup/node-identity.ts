import { hostname } from 'node:os';
import { gateEnabled } from '../../config/value/feature-gates.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Cluster } from '../../model/cluster.ts';
import { type Cidr, cidrFamily } from '../../base/cidr.ts';
import { type IpFamily, isIp4 } from '../../base/ip.ts';
import { MODES } from '../../base/proxy-mode.ts';
import { askedLoopback } from '../../plan/node-port-addresses.ts';
import { MODE_PLANS } from '../../plan/mode-plans.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import type { LocalDetector } from '../../state/rules/rule-settings.ts';
import { StartupError } from './startup-error.ts';

/** Returns our Node's name: --hostname-override, or the hostname trimmed and in lower case. */
export function nodeNameOf(config: ProxyConfig): string {
  const name = config.hostnameOverride ?? hostname().trim().toLowerCase();
  if (name === '') throw new StartupError('this host has no hostname: set --hostname-override');
  return name;
}

/** Returns the configuration of the planner, from the flags and our Node at start. */
export function planConfigOf(
  config: ProxyConfig,
  nodeName: string,
  families: readonly IpFamily[],
  cluster: Cluster,
): PlanConfig {
  const ofMode: Partial<PlanConfig> = MODE_PLANS[config.mode];
  const node = cluster.node();
  const podCidrs = config.detectLocalMode === 'NodeCIDR' ? (node?.podCidrs ?? []) : config.clusterCidrs;
  const localDetectors: Partial<Record<IpFamily, LocalDetector>> = {};
  for (const family of families) {
    const cidr = podCidrs.find((each) => cidrFamily(each) === family);
    const detector = localDetector(config, cidr);
    if (detector !== undefined) localDetectors[family] = detector;
  }
  return {
    scheduler: config.scheduler,
    families,
    nodeName,
    nodePortAddresses: config.nodePortAddresses,
    ...localnetOf(config),
    masqueradeAll: config.masqueradeAll,
    masqueradeMark: (1 << config.masqueradeBit) >>> 0,
    localDetectors,
    ...(config.masqueradePorts === undefined ? {} : { masqueradePorts: config.masqueradePorts }),
    unboundCidrs: config.unboundCidrs,
    localRouteCidrs: config.localRouteCidrs,
    checksEndpoints: config.endpointCheck !== 'off',
    servesExternalIps: gateEnabled(config.featureGates, 'AllowServiceExternalIPs'),
    ...ofMode,
    ...(ofMode.namesServicePorts === true ? { forwardsInvalid: config.conntrack.tcpBeLiberal } : {}),
    // iptables supports --random-fully since 1.6.2 (2018).
    randomFully: true,
  };
}

/** Where rules can serve 127.0.0.1, they do or nothing does; the engine serves the other loopback addresses. */
function localnetOf({ mode, localhostNodePorts, nodePortAddresses }: ProxyConfig): Partial<PlanConfig> {
  const asked = askedLoopback(nodePortAddresses);
  if (MODES[mode].routesLocalnet !== true) return { localNodePortAddresses: asked };
  return { routesLocalnet: localhostNodePorts, localNodePortAddresses: asked.filter((address) => !isIp4(address)) };
}

function localDetector(config: ProxyConfig, cidr: Cidr | undefined): LocalDetector | undefined {
  switch (config.detectLocalMode) {
    case 'ClusterCIDR':
    case 'NodeCIDR':
      // A prefix of 0 contains every address, so it distinguishes nothing, and iptables-nft refuses a rule that
      // negates it.
      return cidr === undefined || cidr.prefix === 0 ? undefined : { kind: 'cidr', cidr };
    case 'BridgeInterface':
      return { kind: 'bridge', interfaceName: config.bridgeInterface };
    case 'InterfaceNamePrefix':
      return { kind: 'interface-prefix', prefix: config.interfaceNamePrefix };
  }
}
