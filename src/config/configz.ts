import { formatCidr } from '../base/cidr.ts';
import { OWN_GROUP, ownFieldsDocument } from './own-document.ts';
import { masqueradeSection, syncSection } from './mode-section.ts';
import type { ProxyConfig } from './proxy-config.ts';
import { type FieldPath, section, settingAt } from './settings.ts';

/** Returns a field's name in kube-proxy's internal type: clientConnection.qps becomes QPS, ipvs.tcpFinTimeout TCPFinTimeout. */
function internalName(path: FieldPath): string {
  const name = path.slice(path.lastIndexOf('.') + 1);
  return name.replace(/^(qps|oom|tcp|udp|[a-z])/, (start) => start.toUpperCase());
}

type EffectiveConfig = Pick<ProxyConfig, 'settings' | 'clusterCidrs' | 'ownFields'>;

/**
 * Returns the response of /configz: the configuration with the structure and the capitalized keys of kube-proxy's
 * internal type, which tools that read the endpoint expect. Only the keys of `Logging` are in lower case. Our own fields
 * are apart from them.
 */
export function configz({ settings, clusterCidrs, ownFields }: EffectiveConfig): unknown {
  const valueOf = (path: FieldPath): unknown => settingAt(path).kind.toDocument(settings[path]);
  const named = (...paths: readonly FieldPath[]): object =>
    Object.fromEntries(paths.map((path) => [internalName(path), valueOf(path)]));
  const below = (prefix: string, ...names: readonly string[]): object =>
    named(...names.map((name) => `${prefix}.${name}` as FieldPath));
  const ofSync = syncSection(settings);
  const config = {
    ...named('featureGates'),
    ClientConnection: below('clientConnection', 'kubeconfig', 'acceptContentTypes', 'contentType', 'qps', 'burst'),
    Logging: {
      format: valueOf('logging.format'),
      flushFrequency: valueOf('logging.flushFrequency'),
      verbosity: valueOf('logging.verbosity'),
      vmodule: valueOf('logging.vmodule'),
    },
    ...named('hostnameOverride', 'bindAddress', 'healthzBindAddress', 'metricsBindAddress', 'bindAddressHardFail'),
    ...named('enableProfiling', 'showHiddenMetricsForVersion', 'mode'),
    IPTables: named('iptables.localhostNodePorts', 'iptables.masqueradeBit'),
    NFTables: named('nftables.masqueradeBit'),
    IPVS: {
      ...named('iptables.masqueradeBit', 'ipvs.scheduler', 'ipvs.excludeCIDRs', 'ipvs.strictARP'),
      ...named('ipvs.tcpTimeout', 'ipvs.tcpFinTimeout', 'ipvs.udpTimeout'),
    },
    Linux: {
      Conntrack: below('conntrack', ...Object.keys(section(settings, 'conntrack'))),
      ...named(`${masqueradeSection(settings)}.masqueradeAll`, 'oomScoreAdj'),
    },
    ...named('detectLocalMode'),
    DetectLocal: {
      ...named('detectLocal.bridgeInterface', 'detectLocal.interfaceNamePrefix'),
      ClusterCIDRs: clusterCidrs.map(formatCidr),
    },
    ...named('nodePortAddresses', `${ofSync}.syncPeriod`, `${ofSync}.minSyncPeriod`, 'configSyncPeriod'),
  };
  return {
    'kubeproxy.config.k8s.io': config,
    [OWN_GROUP]: ownFieldsDocument(ownFields),
  };
}
