import { describe, expect, test } from '@jest/globals';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { ConfigError } from '../../../src/config/value/problem.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

/** The errors of a start with this file. */
function errorsOf(text: string): readonly string[] {
  try {
    const file = { ...readConfigDocument(text, 'f.yaml'), path: 'f.yaml', sha256: '' };
    resolveConfig({ config: 'f.yaml' }, file);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

/** Fields of a file that is good but for them (mode: ipvs where they name none), and all that is then said. */
const FIELDS: readonly (readonly [fields: string, errors: readonly string[]])[] = [
  ['mode: ipvsx', ['KubeProxyConfiguration.mode: "ipvsx" is none of iptables, ipvs, nftables, userspace']],
  ['mode: IPVS', ['KubeProxyConfiguration.mode: "IPVS" is none of iptables, ipvs, nftables, userspace']],
  [
    'mode: kernelspace',
    ['KubeProxyConfiguration.mode: "kernelspace" needs Windows: choose iptables, ipvs, nftables or userspace'],
  ],
  [
    'mode: ""',
    [
      'no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of docs/modes.md',
    ],
  ],
  ['bindAddress: host.example', ['KubeProxyConfiguration.bindAddress: "host.example" is not an IP address']],
  ['bindAddress: 10.0.0.256', ['KubeProxyConfiguration.bindAddress: "10.0.0.256" is not an IP address']],
  ['bindAddress: 10.0.0.0/8', ['KubeProxyConfiguration.bindAddress: "10.0.0.0/8" is not an IP address']],
  ['bindAddress: fe80::1%eth0', ['KubeProxyConfiguration.bindAddress: "fe80::1%eth0" is not an IP address']],
  ['bindAddress: "10.0.0.1:80"', ['KubeProxyConfiguration.bindAddress: "10.0.0.1:80" is not an IP address']],
  [
    'healthzBindAddress: "10256"',
    [
      'KubeProxyConfiguration.healthzBindAddress: "10256" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: ":10256"',
    [
      'KubeProxyConfiguration.healthzBindAddress: ":10256" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: localhost:10256',
    [
      'KubeProxyConfiguration.healthzBindAddress: "localhost:10256" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: 0.0.0.0:0',
    [
      'KubeProxyConfiguration.healthzBindAddress: "0.0.0.0:0" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: 0.0.0.0:65536',
    [
      'KubeProxyConfiguration.healthzBindAddress: "0.0.0.0:65536" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: "::1:10256:"',
    [
      'KubeProxyConfiguration.healthzBindAddress: "::1:10256:" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: "[::1]"',
    [
      'KubeProxyConfiguration.healthzBindAddress: "[::1]" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'healthzBindAddress: 0.0.0.0:http',
    [
      'KubeProxyConfiguration.healthzBindAddress: "0.0.0.0:http" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'metricsBindAddress: "127.0.0.1:"',
    [
      'KubeProxyConfiguration.metricsBindAddress: "127.0.0.1:" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249"',
    ],
  ],
  [
    'metricsBindAddress: 127.0.0.1:-1',
    [
      'KubeProxyConfiguration.metricsBindAddress: "127.0.0.1:-1" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249"',
    ],
  ],
  [
    'metricsBindAddress: 127.0.0.300:10249',
    [
      'KubeProxyConfiguration.metricsBindAddress: "127.0.0.300:10249" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249"',
    ],
  ],
  [
    'metricsBindAddress: "[10.0.0.1]:10249"',
    [
      'KubeProxyConfiguration.metricsBindAddress: "[10.0.0.1]:10249" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249"',
    ],
  ],
  [
    'metricsBindAddress: "[::1]:99999"',
    [
      'KubeProxyConfiguration.metricsBindAddress: "[::1]:99999" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249"',
    ],
  ],
  [
    'clusterCIDR: 10.244.0.0',
    ['KubeProxyConfiguration.clusterCIDR: "10.244.0.0" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"'],
  ],
  [
    'clusterCIDR: 10.244.0.0/33',
    ['KubeProxyConfiguration.clusterCIDR: "10.244.0.0/33" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"'],
  ],
  [
    'clusterCIDR: fd00::/129',
    ['KubeProxyConfiguration.clusterCIDR: "fd00::/129" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"'],
  ],
  [
    'clusterCIDR: 10.244.0.0/16,10.245.0.0/16',
    [
      'KubeProxyConfiguration.clusterCIDR: "10.244.0.0/16,10.245.0.0/16" holds two CIDRs of one family: want one of each',
    ],
  ],
  [
    'clusterCIDR: fd00::/64,fd01::/64',
    ['KubeProxyConfiguration.clusterCIDR: "fd00::/64,fd01::/64" holds two CIDRs of one family: want one of each'],
  ],
  [
    'clusterCIDR: 10.244.0.0/16,fd00::/64,10.245.0.0/16',
    ['KubeProxyConfiguration.clusterCIDR: holds 3 CIDRs: want one, or one of each family'],
  ],
  [
    'clusterCIDR: "10.244.0.0/16, fd00::/64"',
    ['KubeProxyConfiguration.clusterCIDR: " fd00::/64" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"'],
  ],
  [
    'clusterCIDR: "10.244.0.0/16,"',
    ['KubeProxyConfiguration.clusterCIDR: "" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"'],
  ],
  [
    'clusterCIDR: a,b',
    [
      'KubeProxyConfiguration.clusterCIDR: "a" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"',
      'KubeProxyConfiguration.clusterCIDR: "b" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"',
    ],
  ],
  [
    'detectLocalMode: clusterCIDR',
    [
      'KubeProxyConfiguration.detectLocalMode: "clusterCIDR" is none of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
    ],
  ],
  [
    'detectLocalMode: Bridge',
    [
      'KubeProxyConfiguration.detectLocalMode: "Bridge" is none of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
    ],
  ],
  [
    'detectLocalMode: BridgeInterface',
    ['KubeProxyConfiguration.detectLocal.bridgeInterface: is empty: detectLocalMode BridgeInterface needs it'],
  ],
  [
    'detectLocalMode: InterfaceNamePrefix',
    ['KubeProxyConfiguration.detectLocal.interfaceNamePrefix: is empty: detectLocalMode InterfaceNamePrefix needs it'],
  ],
  [
    'detectLocal: {bridgeInterface: a-name-too-long-}',
    ['KubeProxyConfiguration.detectLocal.bridgeInterface: "a-name-too-long-" is longer than 15 characters'],
  ],
  [
    'detectLocal: {bridgeInterface: "cbr 0"}',
    ['KubeProxyConfiguration.detectLocal.bridgeInterface: "cbr 0" is not an interface name'],
  ],
  [
    'detectLocal: {bridgeInterface: "cbr/0"}',
    ['KubeProxyConfiguration.detectLocal.bridgeInterface: "cbr/0" is not an interface name'],
  ],
  [
    'detectLocal: {interfaceNamePrefix: abcdefghijklmno}',
    ['KubeProxyConfiguration.detectLocal.interfaceNamePrefix: "abcdefghijklmno" is longer than 14 characters'],
  ],
  [
    'detectLocal: {interfaceNamePrefix: "veth+"}',
    ['KubeProxyConfiguration.detectLocal.interfaceNamePrefix: "veth+" is not an interface name'],
  ],
  [
    'detectLocal: {interfaceNamePrefix: "!veth"}',
    ['KubeProxyConfiguration.detectLocal.interfaceNamePrefix: "!veth" is not an interface name'],
  ],
  [
    'nodePortAddresses: [10.0.0.1]',
    [
      'KubeProxyConfiguration.nodePortAddresses[0]: "10.0.0.1" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
    ],
  ],
  [
    'nodePortAddresses: [localhost, 10.0.0.0/8, localhost]',
    ['KubeProxyConfiguration.nodePortAddresses: localhost is listed more than once'],
  ],
  [
    'nodePortAddresses: [10.0.0.0/8, eth0]',
    [
      'KubeProxyConfiguration.nodePortAddresses[1]: "eth0" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
    ],
  ],
  [
    'nodePortAddresses: [""]',
    [
      'KubeProxyConfiguration.nodePortAddresses[0]: "" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
    ],
  ],
  [
    'nodePortAddresses: [10.0.0.0/8, fd00::/129, x]',
    [
      'KubeProxyConfiguration.nodePortAddresses[1]: "fd00::/129" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
      'KubeProxyConfiguration.nodePortAddresses[2]: "x" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
    ],
  ],
  [
    'nodePortAddresses: [primary, primary]',
    ['KubeProxyConfiguration.nodePortAddresses: primary is listed more than once'],
  ],
  [
    'nodePortAddresses: [Primary]',
    [
      'KubeProxyConfiguration.nodePortAddresses[0]: "Primary" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
    ],
  ],
  [
    'clientConnection: {acceptContentTypes: "a\\nb"}',
    ['KubeProxyConfiguration.clientConnection.acceptContentTypes: "a\\nb" has characters that no HTTP header may have'],
  ],
  ['oomScoreAdj: 1001', ['KubeProxyConfiguration.oomScoreAdj: 1001 is out of range: want -1000 to 1000']],
  ['oomScoreAdj: -1001', ['KubeProxyConfiguration.oomScoreAdj: -1001 is out of range: want -1000 to 1000']],
  ['conntrack: {maxPerCore: -1}', ['KubeProxyConfiguration.conntrack.maxPerCore: -1 is out of range: want 0 or more']],
  ['conntrack: {min: -1}', ['KubeProxyConfiguration.conntrack.min: -1 is out of range: want 0 or more']],
  [
    'conntrack: {tcpEstablishedTimeout: -1s}',
    ['KubeProxyConfiguration.conntrack.tcpEstablishedTimeout: -1s is negative: want 0s or more'],
  ],
  [
    'conntrack: {tcpCloseWaitTimeout: -1h}',
    ['KubeProxyConfiguration.conntrack.tcpCloseWaitTimeout: -1h0m0s is negative: want 0s or more'],
  ],
  ['conntrack: {udpTimeout: -30s}', ['KubeProxyConfiguration.conntrack.udpTimeout: -30s is negative: want 0s or more']],
  [
    'conntrack: {udpStreamTimeout: -1ms}',
    ['KubeProxyConfiguration.conntrack.udpStreamTimeout: -1ms is negative: want 0s or more'],
  ],
  [
    'iptables: {masqueradeBit: 32}',
    ['KubeProxyConfiguration.iptables.masqueradeBit: 32 is out of range: want 0 to 31'],
  ],
  [
    'iptables: {masqueradeBit: -1}',
    ['KubeProxyConfiguration.iptables.masqueradeBit: -1 is out of range: want 0 to 31'],
  ],
  ['ipvs: {syncPeriod: -1s}', ['KubeProxyConfiguration.ipvs.syncPeriod: -1s is not above zero']],
  ['ipvs: {minSyncPeriod: -1s}', ['KubeProxyConfiguration.ipvs.minSyncPeriod: -1s is negative: want 0s or more']],
  ['ipvs: {minSyncPeriod: 31s}', ['KubeProxyConfiguration.ipvs.minSyncPeriod: 31s is above syncPeriod (30s)']],
  [
    'ipvs: {syncPeriod: 5s, minSyncPeriod: 5001ms}',
    ['KubeProxyConfiguration.ipvs.minSyncPeriod: 5.001s is above syncPeriod (5s)'],
  ],
  [
    'mode: nftables\nnftables: {masqueradeBit: 32}',
    ['KubeProxyConfiguration.nftables.masqueradeBit: 32 is out of range: want 0 to 31'],
  ],
  [
    'mode: nftables\nnftables: {syncPeriod: -1s}',
    ['KubeProxyConfiguration.nftables.syncPeriod: -1s is not above zero'],
  ],
  [
    'mode: nftables\nnftables: {syncPeriod: 5s, minSyncPeriod: 6s}',
    ['KubeProxyConfiguration.nftables.minSyncPeriod: 6s is above syncPeriod (5s)'],
  ],
  [
    'mode: iptables\niptables: {syncPeriod: -1s}',
    ['KubeProxyConfiguration.iptables.syncPeriod: -1s is not above zero'],
  ],
  // What belongs to another mode may be anything.
  ['mode: iptables\nipvs: {syncPeriod: -1s}\nnftables: {syncPeriod: -1s, masqueradeBit: 32}', []],
  [
    'ipvs: {scheduler: "r r"}',
    [
      'KubeProxyConfiguration.ipvs.scheduler: "r r" is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh',
    ],
  ],
  [
    'ipvs: {scheduler: abcdefghijklmnop}',
    ['KubeProxyConfiguration.ipvs.scheduler: "abcdefghijklmnop" is longer than the 15 characters that IPVS keeps'],
  ],
  [
    'ipvs: {scheduler: "rr;ls"}',
    [
      'KubeProxyConfiguration.ipvs.scheduler: "rr;ls" is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh',
    ],
  ],
  [
    'ipvs: {scheduler: " "}',
    [
      'KubeProxyConfiguration.ipvs.scheduler: " " is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh',
    ],
  ],
  [
    'ipvs: {excludeCIDRs: [10.0.0.1]}',
    [
      'KubeProxyConfiguration.ipvs.excludeCIDRs[0]: "10.0.0.1" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"',
    ],
  ],
  [
    'ipvs: {excludeCIDRs: [10.0.0.0/8, 10.0.0.0/x]}',
    [
      'KubeProxyConfiguration.ipvs.excludeCIDRs[1]: "10.0.0.0/x" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64"',
    ],
  ],
  ['ipvs: {tcpTimeout: -1s}', ['KubeProxyConfiguration.ipvs.tcpTimeout: -1s is negative: want 0s or more']],
  ['ipvs: {tcpFinTimeout: -1s}', ['KubeProxyConfiguration.ipvs.tcpFinTimeout: -1s is negative: want 0s or more']],
  ['ipvs: {udpTimeout: -1s}', ['KubeProxyConfiguration.ipvs.udpTimeout: -1s is negative: want 0s or more']],
  ['configSyncPeriod: -15m', ['KubeProxyConfiguration.configSyncPeriod: -15m0s is not above zero']],
  [
    'clientConnection: {burst: -1}',
    ['KubeProxyConfiguration.clientConnection.burst: -1 is out of range: want 0 or more'],
  ],
  [
    'showHiddenMetricsForVersion: v1.36',
    ['KubeProxyConfiguration.showHiddenMetricsForVersion: "v1.36" is not a version: want <major>.<minor>'],
  ],
  [
    'showHiddenMetricsForVersion: "1.36.0"',
    ['KubeProxyConfiguration.showHiddenMetricsForVersion: "1.36.0" is not a version: want <major>.<minor>'],
  ],
  [
    'showHiddenMetricsForVersion: 1-36',
    ['KubeProxyConfiguration.showHiddenMetricsForVersion: "1-36" is not a version: want <major>.<minor>'],
  ],
  ['hostnameOverride: "  "', ['KubeProxyConfiguration.hostnameOverride: is only white space']],
  ['logging: {format: xml}', ['KubeProxyConfiguration.logging.format: "xml" is none of text, json']],
  ['logging: {format: JSON}', ['KubeProxyConfiguration.logging.format: "JSON" is none of text, json']],
  [
    'logging: {format: json, vmodule: [{filePattern: sync, verbosity: 4}]}',
    ['KubeProxyConfiguration.logging.vmodule: works with logging.format text only'],
  ],
  [
    'logging: {vmodule: [{filePattern: "", verbosity: 4}]}',
    ['KubeProxyConfiguration.logging.vmodule[0]: "" is not a pattern: want a name without "," and "="'],
  ],
  [
    'logging: {vmodule: [{filePattern: "a,b", verbosity: 4}]}',
    ['KubeProxyConfiguration.logging.vmodule[0]: "a,b" is not a pattern: want a name without "," and "="'],
  ],
  [
    'logging: {vmodule: [{filePattern: ok, verbosity: 1}, {filePattern: a=b, verbosity: 4}]}',
    ['KubeProxyConfiguration.logging.vmodule[1]: "a=b" is not a pattern: want a name without "," and "="'],
  ],
  [
    'logging: {flushFrequency: -5s}',
    ['KubeProxyConfiguration.logging.flushFrequency: -5s is negative: want 0s or more'],
  ],
  [
    'featureGates: {no-such-gate: true}',
    [
      'KubeProxyConfiguration.featureGates: "no-such-gate" is not the name of a feature gate: want letters and digits, the first a capital',
    ],
  ],
  [
    'featureGates: {nfTablesProxyMode: true}',
    [
      'KubeProxyConfiguration.featureGates: "nfTablesProxyMode" is not the name of a feature gate: did you mean NFTablesProxyMode?',
    ],
  ],
  [
    'featureGates: {NFTablesProxyMode: false}',
    ['KubeProxyConfiguration.featureGates: feature gate NFTablesProxyMode is locked to true: drop it'],
  ],
  [
    'featureGates: {MultiCIDRServiceAllocator: false, WinDSR: false}',
    [
      'KubeProxyConfiguration.featureGates: feature gate MultiCIDRServiceAllocator is locked to true: drop it',
      'KubeProxyConfiguration.featureGates: feature gate WinDSR is locked to true: drop it',
    ],
  ],
  ['bindAddress: 10', ['KubeProxyConfiguration.bindAddress: want a string, got 10']],
  ['bindAddress: [10.0.0.1]', ['KubeProxyConfiguration.bindAddress: want a string, got ["10.0.0.1"]']],
  ['bindAddressHardFail: "true"', ['KubeProxyConfiguration.bindAddressHardFail: want true or false, got "true"']],
  ['bindAddressHardFail: 1', ['KubeProxyConfiguration.bindAddressHardFail: want true or false, got 1']],
  ['enableProfiling: maybe', ['KubeProxyConfiguration.enableProfiling: want true or false, got "maybe"']],
  ['clientConnection: []', ['KubeProxyConfiguration.clientConnection: want an object, got a list']],
  ['clientConnection: text', ['KubeProxyConfiguration.clientConnection: want an object, got "text"']],
  ['clientConnection: {qps: five}', ['KubeProxyConfiguration.clientConnection.qps: want a number, got "five"']],
  ['clientConnection: {qps: "5"}', ['KubeProxyConfiguration.clientConnection.qps: want a number, got "5"']],
  ['clientConnection: {qps: .inf}', ['KubeProxyConfiguration.clientConnection.qps: want a number, got Infinity']],
  [
    'clientConnection: {burst: 1.5}',
    ['KubeProxyConfiguration.clientConnection.burst: want a whole number from -2147483648 to 2147483647, got 1.5'],
  ],
  [
    'clientConnection: {burst: 2147483648}',
    [
      'KubeProxyConfiguration.clientConnection.burst: want a whole number from -2147483648 to 2147483647, got 2147483648',
    ],
  ],
  ['clientConnection: {kubeconfig: {}}', ['KubeProxyConfiguration.clientConnection.kubeconfig: want a string, got {}']],
  ['clientConnection: {contentType: 1}', ['KubeProxyConfiguration.clientConnection.contentType: want a string, got 1']],
  ['conntrack: 5', ['KubeProxyConfiguration.conntrack: want an object, got 5']],
  [
    'conntrack: {min: "131072"}',
    ['KubeProxyConfiguration.conntrack.min: want a whole number from -2147483648 to 2147483647, got "131072"'],
  ],
  [
    'conntrack: {maxPerCore: 1e99}',
    ['KubeProxyConfiguration.conntrack.maxPerCore: want a whole number from -2147483648 to 2147483647, got 1e+99'],
  ],
  [
    'conntrack: {tcpEstablishedTimeout: 86400}',
    [
      'KubeProxyConfiguration.conntrack.tcpEstablishedTimeout: want a duration with a unit, such as "30s" or "1h30m", got 86400',
    ],
  ],
  [
    'conntrack: {tcpEstablishedTimeout: 1d}',
    [
      'KubeProxyConfiguration.conntrack.tcpEstablishedTimeout: want a duration with a unit, such as "30s" or "1h30m", got "1d"',
    ],
  ],
  [
    'conntrack: {tcpCloseWaitTimeout: ""}',
    [
      'KubeProxyConfiguration.conntrack.tcpCloseWaitTimeout: want a duration with a unit, such as "30s" or "1h30m", got ""',
    ],
  ],
  [
    'conntrack: {udpTimeout: 30}',
    ['KubeProxyConfiguration.conntrack.udpTimeout: want a duration with a unit, such as "30s" or "1h30m", got 30'],
  ],
  ['conntrack: {tcpBeLiberal: 1}', ['KubeProxyConfiguration.conntrack.tcpBeLiberal: want true or false, got 1']],
  ['ipvs: true', ['KubeProxyConfiguration.ipvs: want an object, got true']],
  [
    'ipvs: {syncPeriod: 30}',
    ['KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got 30'],
  ],
  [
    'ipvs: {syncPeriod: "30"}',
    ['KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "30"'],
  ],
  [
    'ipvs: {syncPeriod: 30 s}',
    ['KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "30 s"'],
  ],
  [
    'ipvs: {syncPeriod: 1h30}',
    ['KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "1h30"'],
  ],
  [
    'ipvs: {syncPeriod: 300000h0m0s300000000h}',
    [
      'KubeProxyConfiguration.ipvs.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "300000h0m0s300000000h"',
    ],
  ],
  [
    'ipvs: {minSyncPeriod: s}',
    ['KubeProxyConfiguration.ipvs.minSyncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "s"'],
  ],
  [
    'ipvs: {excludeCIDRs: 10.0.0.0/8}',
    ['KubeProxyConfiguration.ipvs.excludeCIDRs: want a list of strings, got "10.0.0.0/8"'],
  ],
  ['ipvs: {excludeCIDRs: [10]}', ['KubeProxyConfiguration.ipvs.excludeCIDRs: want a list of strings, got [10]']],
  ['ipvs: {strictARP: "yes"}', ['KubeProxyConfiguration.ipvs.strictARP: want true or false, got "yes"']],
  ['ipvs: {scheduler: [rr]}', ['KubeProxyConfiguration.ipvs.scheduler: want a string, got ["rr"]']],
  [
    'ipvs: {tcpTimeout: 1y}',
    ['KubeProxyConfiguration.ipvs.tcpTimeout: want a duration with a unit, such as "30s" or "1h30m", got "1y"'],
  ],
  [
    'iptables: {masqueradeBit: "14"}',
    ['KubeProxyConfiguration.iptables.masqueradeBit: want a whole number from -2147483648 to 2147483647, got "14"'],
  ],
  [
    'iptables: {masqueradeBit: 14.5}',
    ['KubeProxyConfiguration.iptables.masqueradeBit: want a whole number from -2147483648 to 2147483647, got 14.5'],
  ],
  [
    'iptables: {masqueradeAll: "false"}',
    ['KubeProxyConfiguration.iptables.masqueradeAll: want true or false, got "false"'],
  ],
  [
    'iptables: {syncPeriod: 30}',
    ['KubeProxyConfiguration.iptables.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got 30'],
  ],
  [
    'nftables: {syncPeriod: never}',
    ['KubeProxyConfiguration.nftables.syncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "never"'],
  ],
  [
    'nftables: {masqueradeBit: x}',
    ['KubeProxyConfiguration.nftables.masqueradeBit: want a whole number from -2147483648 to 2147483647, got "x"'],
  ],
  ['winkernel: {enableDSR: 1}', ['KubeProxyConfiguration.winkernel.enableDSR: want true or false, got 1']],
  ['winkernel: []', ['KubeProxyConfiguration.winkernel: want an object, got a list']],
  ['windowsRunAsService: 0', ['KubeProxyConfiguration.windowsRunAsService: want true or false, got 0']],
  ['mode: 4', ['KubeProxyConfiguration.mode: want a string, got 4']],
  ['mode: true', ['KubeProxyConfiguration.mode: want a string, got true']],
  ['nodePortAddresses: primary', ['KubeProxyConfiguration.nodePortAddresses: want a list of strings, got "primary"']],
  ['nodePortAddresses: {a: b}', ['KubeProxyConfiguration.nodePortAddresses: want a list of strings, got {"a":"b"}']],
  [
    'oomScoreAdj: low',
    ['KubeProxyConfiguration.oomScoreAdj: want a whole number from -2147483648 to 2147483647, got "low"'],
  ],
  [
    'oomScoreAdj: 0.5',
    ['KubeProxyConfiguration.oomScoreAdj: want a whole number from -2147483648 to 2147483647, got 0.5'],
  ],
  ['portRange: 30000', ['KubeProxyConfiguration.portRange: want a string, got 30000']],
  [
    'configSyncPeriod: 900',
    ['KubeProxyConfiguration.configSyncPeriod: want a duration with a unit, such as "30s" or "1h30m", got 900'],
  ],
  [
    'configSyncPeriod: 15 minutes',
    [
      'KubeProxyConfiguration.configSyncPeriod: want a duration with a unit, such as "30s" or "1h30m", got "15 minutes"',
    ],
  ],
  [
    'featureGates: [A]',
    ['KubeProxyConfiguration.featureGates: want feature gates such as "A=true,B=false", got ["A"]'],
  ],
  [
    'featureGates: {A: "true"}',
    ['KubeProxyConfiguration.featureGates: want feature gates such as "A=true,B=false", got {"A":"true"}'],
  ],
  [
    'featureGates: A=true',
    ['KubeProxyConfiguration.featureGates: want feature gates such as "A=true,B=false", got "A=true"'],
  ],
  [
    'logging: {verbosity: -1}',
    ['KubeProxyConfiguration.logging.verbosity: want a whole number from 0 to 4294967295, got -1'],
  ],
  [
    'logging: {verbosity: high}',
    ['KubeProxyConfiguration.logging.verbosity: want a whole number from 0 to 4294967295, got "high"'],
  ],
  [
    'logging: {vmodule: sync=4}',
    [
      'KubeProxyConfiguration.logging.vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got "sync=4"',
    ],
  ],
  [
    'logging: {vmodule: [{filePattern: a}]}',
    [
      'KubeProxyConfiguration.logging.vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got [{"filePattern":"a"}]',
    ],
  ],
  [
    'logging: {vmodule: [{filePattern: a, verbosity: 1, x: 1}]}',
    [
      'KubeProxyConfiguration.logging.vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got [{"filePattern":"a","verbosity":1,"x":1}]',
    ],
  ],
  [
    'logging: {flushFrequency: 5 s}',
    [
      'KubeProxyConfiguration.logging.flushFrequency: want a duration such as "5s", or a whole number of nanoseconds, got "5 s"',
    ],
  ],
  ['logging: {options: 1}', ['KubeProxyConfiguration.logging.options: want an object, got 1']],
  [
    'logging: {options: {json: {infoBufferSize: 64kb}}}',
    [
      'KubeProxyConfiguration.logging.options.json.infoBufferSize: want a quantity such as "0", "4096" or "64Ki", got "64kb"',
    ],
  ],
  [
    'logging: {options: {text: {splitStream: 1}}}',
    ['KubeProxyConfiguration.logging.options.text.splitStream: want true or false, got 1'],
  ],
  ['detectLocal: bridge', ['KubeProxyConfiguration.detectLocal: want an object, got "bridge"']],
  ['detectLocal: {bridgeInterface: 0}', ['KubeProxyConfiguration.detectLocal.bridgeInterface: want a string, got 0']],
  ['hostnameOverride: 1.5', ['KubeProxyConfiguration.hostnameOverride: want a string, got 1.5']],
  ['healthzBindAddress: 10256', ['KubeProxyConfiguration.healthzBindAddress: want a string, got 10256']],
  ['metricsBindAddress: 127.1', ['KubeProxyConfiguration.metricsBindAddress: want a string, got 127.1']],
  ['clusterCIDR: [10.0.0.0/8]', ['KubeProxyConfiguration.clusterCIDR: want a string, got ["10.0.0.0/8"]']],
  [
    'showHiddenMetricsForVersion: 1.36',
    ['KubeProxyConfiguration.showHiddenMetricsForVersion: want a string, got 1.36'],
  ],
  [
    'bindAddress: x\nhealthzBindAddress: nowhere\noomScoreAdj: 5000\nipvs: {syncPeriod: -1s, scheduler: "a b"}',
    [
      'KubeProxyConfiguration.bindAddress: "x" is not an IP address',
      'KubeProxyConfiguration.oomScoreAdj: 5000 is out of range: want -1000 to 1000',
      'KubeProxyConfiguration.ipvs.scheduler: "a b" is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh',
      'KubeProxyConfiguration.ipvs.syncPeriod: -1s is not above zero',
      'KubeProxyConfiguration.healthzBindAddress: "nowhere" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256"',
    ],
  ],
  [
    'bindAddress: 1\nmode: 2\nconntrack: {min: z}',
    [
      'KubeProxyConfiguration.bindAddress: want a string, got 1',
      'KubeProxyConfiguration.mode: want a string, got 2',
      'KubeProxyConfiguration.conntrack.min: want a whole number from -2147483648 to 2147483647, got "z"',
    ],
  ],
  [
    'conntrack: {min: -1, maxPerCore: -1}\niptables: {masqueradeBit: 40}\nnodePortAddresses: [a, b]',
    [
      'KubeProxyConfiguration.nodePortAddresses[0]: "a" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
      'KubeProxyConfiguration.nodePortAddresses[1]: "b" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all',
      'KubeProxyConfiguration.iptables.masqueradeBit: 40 is out of range: want 0 to 31',
      'KubeProxyConfiguration.conntrack.maxPerCore: -1 is out of range: want 0 or more',
      'KubeProxyConfiguration.conntrack.min: -1 is out of range: want 0 or more',
    ],
  ],
];

describe('an invalid field', () => {
  test.each(FIELDS)('%j', (fields, errors) => {
    const mode = /^mode:/m.test(fields) ? '' : 'mode: ipvs\n';
    expect(errorsOf(`${HEAD}${mode}${fields}\n`)).toEqual(errors);
  });
});

const TEXTS: readonly (readonly [text: string, errors: readonly string[]])[] = [
  ['', ['f.yaml is empty: it must contain one document of kind KubeProxyConfiguration']],
  ['# only a comment\n', ['f.yaml is empty: it must contain one document of kind KubeProxyConfiguration']],
  ['---\n', ['f.yaml is empty: it must contain one document of kind KubeProxyConfiguration']],
  ['[]', ['f.yaml contains a list instead of an object: it must contain one document of kind KubeProxyConfiguration']],
  [
    'just text',
    ['f.yaml contains "just text" instead of an object: it must contain one document of kind KubeProxyConfiguration'],
  ],
  ['42', ['f.yaml contains 42 instead of an object: it must contain one document of kind KubeProxyConfiguration']],
  ['apiVersion: kubeproxy.config.k8s.io/v1alpha1', ['f.yaml has no kind: want kind: KubeProxyConfiguration']],
  ['kind: KubeProxyConfiguration', ['f.yaml has no apiVersion: want apiVersion: kubeproxy.config.k8s.io/v1alpha1']],
  [
    'apiVersion: kubeproxy.config.k8s.io/v1alpha2\nkind: KubeProxyConfiguration',
    ['f.yaml has apiVersion "kubeproxy.config.k8s.io/v1alpha2": only kubeproxy.config.k8s.io/v1alpha1 can be read'],
  ],
  [
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration',
    ['f.yaml has kind "KubeletConfiguration": want KubeProxyConfiguration'],
  ],
  [
    'apiVersion: v1\nkind: ConfigMap',
    [
      'f.yaml has kind "ConfigMap": want KubeProxyConfiguration',
      'f.yaml has apiVersion "v1": only kubeproxy.config.k8s.io/v1alpha1 can be read',
    ],
  ],
  [
    'apiVersion: 1\nkind: []',
    [
      'f.yaml has kind []: want KubeProxyConfiguration',
      'f.yaml has apiVersion 1: only kubeproxy.config.k8s.io/v1alpha1 can be read',
    ],
  ],
  ['a: [1\n', ['f.yaml cannot be read as YAML or JSON: deficient indentation at line 2, column 1']],
  ['a: b: c', ['f.yaml cannot be read as YAML or JSON: bad indentation of a mapping entry at line 1, column 5']],
  [
    '{"kind": ',
    [
      'f.yaml cannot be read as YAML or JSON: unexpected end of the stream within a flow collection at line 1, column 10',
    ],
  ],
  [
    '\tmode: ipvs',
    [
      'f.yaml cannot be read as YAML or JSON: end of the stream or a document separator is expected at line 1, column 6',
    ],
  ],
  [
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n---\nmode: ipvs',
    [
      'the second document of f.yaml has no kind: want kind: KubeIPVSProxyConfiguration',
      'the second document of f.yaml has no apiVersion: want apiVersion: kube-ipvs-proxy/v1alpha1',
    ],
  ],
  ['x: *nothing', ['f.yaml cannot be read as YAML or JSON: unidentified alias "nothing" at line 1, column 5']],
  [
    'a: "unclosed',
    [
      'f.yaml cannot be read as YAML or JSON: unexpected end of the stream within a double quoted scalar at line 1, column 13',
    ],
  ],
];

describe('a text that is not a KubeProxyConfiguration', () => {
  test.each(TEXTS)('%j', (text, errors) => {
    expect(errorsOf(text)).toEqual(errors);
  });
});
