import { formatCidr } from '../net/cidr.ts';
import { formatDuration } from './duration.ts';
import type { ProxyConfig } from './proxy-config.ts';

/**
 * What /configz answers: the configuration in the shape and with the capitalised keys of kube-proxy's internal type, which is what
 * tools that read the endpoint expect. Only `Logging` has keys in lower case there.
 */
export function configz({ fields, clusterCidrs }: ProxyConfig): unknown {
  const config = {
    FeatureGates: fields.featureGates,
    ClientConnection: {
      Kubeconfig: fields['clientConnection.kubeconfig'],
      AcceptContentTypes: fields['clientConnection.acceptContentTypes'],
      ContentType: fields['clientConnection.contentType'],
      QPS: fields['clientConnection.qps'],
      Burst: fields['clientConnection.burst'],
    },
    Logging: {
      format: fields['logging.format'],
      flushFrequency: formatDuration(fields['logging.flushFrequency']),
      verbosity: fields['logging.verbosity'],
      vmodule: fields['logging.vmodule'],
    },
    HostnameOverride: fields.hostnameOverride,
    BindAddress: fields.bindAddress,
    HealthzBindAddress: fields.healthzBindAddress,
    MetricsBindAddress: fields.metricsBindAddress,
    BindAddressHardFail: fields.bindAddressHardFail,
    EnableProfiling: fields.enableProfiling,
    ShowHiddenMetricsForVersion: fields.showHiddenMetricsForVersion,
    Mode: fields.mode,
    ...syncSections({ fields }),
    DetectLocalMode: fields.detectLocalMode,
    DetectLocal: {
      BridgeInterface: fields['detectLocal.bridgeInterface'],
      ClusterCIDRs: clusterCidrs.map(formatCidr),
      InterfaceNamePrefix: fields['detectLocal.interfaceNamePrefix'],
    },
    NodePortAddresses: fields.nodePortAddresses,
    SyncPeriod: formatDuration(fields['ipvs.syncPeriod']),
    MinSyncPeriod: formatDuration(fields['ipvs.minSyncPeriod']),
    ConfigSyncPeriod: formatDuration(fields.configSyncPeriod),
  };
  return { 'kubeproxy.config.k8s.io': config };
}

function syncSections({ fields }: Pick<ProxyConfig, 'fields'>): object {
  return {
    IPTables: {
      LocalhostNodePorts: fields['iptables.localhostNodePorts'],
      MasqueradeBit: fields['iptables.masqueradeBit'],
    },
    IPVS: {
      MasqueradeBit: fields['iptables.masqueradeBit'],
      Scheduler: fields['ipvs.scheduler'],
      ExcludeCIDRs: fields['ipvs.excludeCIDRs'],
      StrictARP: fields['ipvs.strictARP'],
      TCPTimeout: formatDuration(fields['ipvs.tcpTimeout']),
      TCPFinTimeout: formatDuration(fields['ipvs.tcpFinTimeout']),
      UDPTimeout: formatDuration(fields['ipvs.udpTimeout']),
    },
    Linux: {
      Conntrack: {
        MaxPerCore: fields['conntrack.maxPerCore'],
        Min: fields['conntrack.min'],
        TCPEstablishedTimeout: formatDuration(fields['conntrack.tcpEstablishedTimeout']),
        TCPCloseWaitTimeout: formatDuration(fields['conntrack.tcpCloseWaitTimeout']),
        TCPBeLiberal: fields['conntrack.tcpBeLiberal'],
        UDPTimeout: formatDuration(fields['conntrack.udpTimeout']),
        UDPStreamTimeout: formatDuration(fields['conntrack.udpStreamTimeout']),
      },
      MasqueradeAll: fields['iptables.masqueradeAll'],
      OOMScoreAdj: fields.oomScoreAdj,
    },
  };
}
