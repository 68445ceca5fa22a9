import { describe, expect, test } from '@jest/globals';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { ConfigError } from '../../../src/config/value/problem.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';

/** The errors of a start with these arguments. */
function errorsOf(argv: readonly string[]): readonly string[] {
  const parsed = parseArgv(argv);
  if (!parsed.ok) return parsed.errors;
  try {
    resolveConfig(parsed.given, undefined);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

const CASES: readonly (readonly [argv: readonly string[], errors: readonly string[]])[] = [
  [['--proxy-mod=ipvs'], ["unknown option '--proxy-mod' (Did you mean --proxy-mode?); see --help"]],
  [['--cleanup-iptables'], ["unknown option '--cleanup-iptables'; see --help"]],
  [['--ipvs-schedular', 'rr'], ["unknown option '--ipvs-schedular' (Did you mean --ipvs-scheduler?); see --help"]],
  [['--xyzzyplughquux'], ["unknown option '--xyzzyplughquux'; see --help"]],
  [['-x'], ["unknown option '-x'; see --help"]],
  [['-q=1'], ["unknown option '-q1'; see --help"]],
  [['-proxy-mode=ipvs'], ["unknown option '-proxy-mode=ipvs'; see --help"]],
  [['--windows-service'], ["unknown option '--windows-service'; see --help"]],
  [['--feature_gate=A=true'], ["unknown option '--feature-gate' (Did you mean --feature-gates?); see --help"]],
  [['--cleanup', 'now'], ['unexpected argument "now": every setting is a flag that begins with "--"']],
  [['--', 'x'], ['unexpected argument "x": every setting is a flag that begins with "--"']],
  [['--', '', 'x'], ['unexpected argument "x": every setting is a flag that begins with "--"']],
  [
    ['--proxy-mode=ipvs', '--config', '', 'x'],
    ['unexpected argument "x": every setting is a flag that begins with "--"'],
  ],
  [['-'], ['unexpected argument "-": every setting is a flag that begins with "--"']],
  [['--proxy-mode=ipvs', 'false'], ['unexpected argument "false": every setting is a flag that begins with "--"']],
  [['--config'], ["option '--config <file>' argument missing; see --help"]],
  [['--proxy-mode'], ["option '--proxy-mode <mode>' argument missing; see --help"]],
  [['-v'], ["option '-v, --v <level>' argument missing; see --help"]],
  [['--manifests'], ["option '--manifests <dir>' argument missing; see --help"]],
  [['--cleanup=maybe'], ['--cleanup: want true or false, got "maybe"']],
  [['--masquerade-all=yes'], ['--masquerade-all: want true or false, got "yes"']],
  [['--bind-address-hard-fail=2'], ['--bind-address-hard-fail: want true or false, got "2"']],
  [['--ipvs-strict-arp='], ['--ipvs-strict-arp: want true or false, got ""']],
  [['--iptables-localhost-nodeports=si'], ['--iptables-localhost-nodeports: want true or false, got "si"']],
  [['--v=-1'], ['--v: want a whole number from 0 to 4294967295, got "-1"']],
  [['-vx'], ['--v: want a whole number from 0 to 4294967295, got "x"']],
  [['-v=high'], ['--v: want a whole number from 0 to 4294967295, got "high"']],
  [['--v', '4294967296'], ['--v: want a whole number from 0 to 4294967295, got "4294967296"']],
  [['--oom-score-adj=low'], ['--oom-score-adj: want a whole number from -2147483648 to 2147483647, got "low"']],
  [['--oom-score-adj='], ['--oom-score-adj: want a whole number from -2147483648 to 2147483647, got ""']],
  [['--kube-api-burst=1.5'], ['--kube-api-burst: want a whole number from -2147483648 to 2147483647, got "1.5"']],
  [
    ['--kube-api-burst=2147483648'],
    ['--kube-api-burst: want a whole number from -2147483648 to 2147483647, got "2147483648"'],
  ],
  [['--kube-api-qps=fast'], ['--kube-api-qps: want a number, got "fast"']],
  [['--kube-api-qps=1e39'], ['--kube-api-qps: want a number, got "1e39"']],
  [['--healthz-port=x'], ['--healthz-port: want a whole number from -2147483648 to 2147483647, got "x"']],
  [['--metrics-port=1 0'], ['--metrics-port: want a whole number from -2147483648 to 2147483647, got "1 0"']],
  [['--conntrack-min=ten'], ['--conntrack-min: want a whole number from -2147483648 to 2147483647, got "ten"']],
  [
    ['--conntrack-max-per-core=0x'],
    ['--conntrack-max-per-core: want a whole number from -2147483648 to 2147483647, got "0x"'],
  ],
  [
    ['--iptables-masquerade-bit=one'],
    ['--iptables-masquerade-bit: want a whole number from -2147483648 to 2147483647, got "one"'],
  ],
  [['--ipvs-sync-period=30'], ['--ipvs-sync-period: want a duration with a unit, such as "30s" or "1h30m", got "30"']],
  [
    ['--ipvs-min-sync-period=fast'],
    ['--ipvs-min-sync-period: want a duration with a unit, such as "30s" or "1h30m", got "fast"'],
  ],
  [
    ['--config-sync-period=15'],
    ['--config-sync-period: want a duration with a unit, such as "30s" or "1h30m", got "15"'],
  ],
  [['--ipvs-tcp-timeout=1d'], ['--ipvs-tcp-timeout: want a duration with a unit, such as "30s" or "1h30m", got "1d"']],
  [
    ['--ipvs-tcpfin-timeout=-'],
    ['--ipvs-tcpfin-timeout: want a duration with a unit, such as "30s" or "1h30m", got "-"'],
  ],
  [['--ipvs-udp-timeout='], ['--ipvs-udp-timeout: want a duration with a unit, such as "30s" or "1h30m", got ""']],
  [
    ['--conntrack-tcp-timeout-established=1h30'],
    ['--conntrack-tcp-timeout-established: want a duration with a unit, such as "30s" or "1h30m", got "1h30"'],
  ],
  [
    ['--conntrack-udp-timeout=.s'],
    ['--conntrack-udp-timeout: want a duration with a unit, such as "30s" or "1h30m", got ".s"'],
  ],
  [
    ['--ipvs-drain-timeout=5'],
    ['--ipvs-drain-timeout: want a duration with a unit, such as "30s" or "1h30m", got "5"'],
  ],
  [
    ['--log-flush-frequency=often'],
    ['--log-flush-frequency: want a duration such as "5s", or a whole number of nanoseconds, got "often"'],
  ],
  [['--udp-timeout=250'], ['--udp-timeout: want a duration with a unit, such as "30s" or "1h30m", got "250"']],
  [['--feature-gates=A'], ['--feature-gates: want feature gates such as "A=true,B=false", got "A"']],
  [['--feature-gates==true'], ['--feature-gates: want feature gates such as "A=true,B=false", got "=true"']],
  [['--feature-gates=A=maybe'], ['--feature-gates: want feature gates such as "A=true,B=false", got "A=maybe"']],
  [
    ['--vmodule=a'],
    [
      '--vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got "a"',
    ],
  ],
  [
    ['--vmodule=a=b'],
    [
      '--vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got "a=b"',
    ],
  ],
  [
    ['--vmodule==4'],
    [
      '--vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got "=4"',
    ],
  ],
  [
    ['--vmodule=a=-1'],
    [
      '--vmodule: want patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file, got "a=-1"',
    ],
  ],
  [
    ['--log-json-info-buffer-size=64kb'],
    ['--log-json-info-buffer-size: want a quantity such as "0", "4096" or "64Ki", got "64kb"'],
  ],
  [
    ['--ipvs-sync-period=x', '--v=x', '--cleanup=x'],
    [
      '--ipvs-sync-period: want a duration with a unit, such as "30s" or "1h30m", got "x"',
      '--v: want a whole number from 0 to 4294967295, got "x"',
      '--cleanup: want true or false, got "x"',
    ],
  ],
  [
    [],
    [
      'no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of docs/modes.md',
    ],
  ],
  [
    ['--proxy-mode=kernelspace'],
    [
      'KubeProxyConfiguration.mode: "kernelspace" needs Windows: choose iptables, ipvs, nftables or userspace (--proxy-mode)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--service-metrics-selector=tier>1'],
    ['--service-metrics-selector: want a label selector such as tier=front, app in (web,api), !test, got "tier>1"'],
  ],
  [
    ['--proxy-mode=ipvs', '--service-metrics-limit=-1'],
    ['--service-metrics-limit: -1 is negative: want 0 (no such metrics) or more'],
  ],
  [
    ['--proxy-mode=ipvs', '--feature-gates=9lives=true'],
    [
      'KubeProxyConfiguration.featureGates: "9lives" is not the name of a feature gate: want letters and digits, the first a capital (--feature-gates)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--feature-gates=kube-proxy-ipvs=true'],
    [
      'KubeProxyConfiguration.featureGates: "kube-proxy-ipvs" is not the name of a feature gate: did you mean KubeProxyIPVS? (--feature-gates)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--feature-gates=WinDSR=false'],
    ['KubeProxyConfiguration.featureGates: feature gate WinDSR is locked to true: drop it (--feature-gates)'],
  ],
  [
    ['--proxy-mode=ipvs', '--bind-address=eth0'],
    ['KubeProxyConfiguration.bindAddress: "eth0" is not an IP address (--bind-address)'],
  ],
  [
    ['--proxy-mode=ipvs', '--healthz-bind-address=0.0.0.0:0'],
    [
      'KubeProxyConfiguration.healthzBindAddress: "0.0.0.0:0" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256" (--healthz-bind-address)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--healthz-bind-address=::', '--healthz-port=-1'],
    [
      'KubeProxyConfiguration.healthzBindAddress: "[::]:-1" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256" (--healthz-bind-address)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--healthz-bind-address=host', '--healthz-port=80'],
    [
      'KubeProxyConfiguration.healthzBindAddress: "host" is not an IP:port: want an address and a port from 1 to 65535, such as "0.0.0.0:10256" (--healthz-bind-address)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--metrics-bind-address=127.0.0.1', '--metrics-port=70000'],
    [
      'KubeProxyConfiguration.metricsBindAddress: "127.0.0.1:70000" is not an IP:port: want an address and a port from 1 to 65535, such as "127.0.0.1:10249" (--metrics-bind-address)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--hostname-override= '],
    ['KubeProxyConfiguration.hostnameOverride: is only white space (--hostname-override)'],
  ],
  [
    ['--proxy-mode=ipvs', '--cluster-cidr=x'],
    [
      'KubeProxyConfiguration.clusterCIDR: "x" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64" (--cluster-cidr)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--cluster-cidr=10.0.0.0/8,10.1.0.0/16'],
    [
      'KubeProxyConfiguration.clusterCIDR: "10.0.0.0/8,10.1.0.0/16" holds two CIDRs of one family: want one of each (--cluster-cidr)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--detect-local-mode=Node'],
    [
      'KubeProxyConfiguration.detectLocalMode: "Node" is none of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix (--detect-local-mode)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--detect-local-mode=BridgeInterface'],
    [
      'KubeProxyConfiguration.detectLocal.bridgeInterface: is empty: detectLocalMode BridgeInterface needs it (--pod-bridge-interface)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--detect-local-mode=InterfaceNamePrefix'],
    [
      'KubeProxyConfiguration.detectLocal.interfaceNamePrefix: is empty: detectLocalMode InterfaceNamePrefix needs it (--pod-interface-name-prefix)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--pod-bridge-interface=abcdefghijklmnop'],
    [
      'KubeProxyConfiguration.detectLocal.bridgeInterface: "abcdefghijklmnop" is longer than 15 characters (--pod-bridge-interface)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--nodeport-addresses=10.0.0.1'],
    [
      'KubeProxyConfiguration.nodePortAddresses[0]: "10.0.0.1" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64", or primary, localhost or all (--nodeport-addresses)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--nodeport-addresses=primary,all,localhost', '--nodeport-addresses=10.0.0.0/8,all,primary'],
    ['KubeProxyConfiguration.nodePortAddresses: primary and all are listed more than once (--nodeport-addresses)'],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-exclude-cidrs=10.0.0.0/8,x', '--ipvs-exclude-cidrs=y'],
    [
      'KubeProxyConfiguration.ipvs.excludeCIDRs[1]: "x" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64" (--ipvs-exclude-cidrs)',
      'KubeProxyConfiguration.ipvs.excludeCIDRs[2]: "y" is not a CIDR: want one such as "10.0.0.0/8" or "fd00::/64" (--ipvs-exclude-cidrs)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-scheduler=round robin'],
    [
      'KubeProxyConfiguration.ipvs.scheduler: "round robin" is not a scheduler name: want letters, digits, "_" and "-", such as rr, lc or mh (--ipvs-scheduler)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-scheduler=averylongscheduler'],
    [
      'KubeProxyConfiguration.ipvs.scheduler: "averylongscheduler" is longer than the 15 characters that IPVS keeps (--ipvs-scheduler)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-sync-period=0s'],
    ['KubeProxyConfiguration.ipvs.syncPeriod: 0s is not above zero (--ipvs-sync-period)'],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-sync-period=500ms'],
    ['KubeProxyConfiguration.ipvs.minSyncPeriod: 1s is above syncPeriod (500ms) (--ipvs-min-sync-period)'],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-min-sync-period=1m'],
    ['KubeProxyConfiguration.ipvs.minSyncPeriod: 1m0s is above syncPeriod (30s) (--ipvs-min-sync-period)'],
  ],
  [
    ['--proxy-mode=ipvs', '--config-sync-period=0'],
    ['KubeProxyConfiguration.configSyncPeriod: 0s is not above zero (--config-sync-period)'],
  ],
  [
    ['--proxy-mode=ipvs', '--iptables-masquerade-bit=32'],
    ['KubeProxyConfiguration.iptables.masqueradeBit: 32 is out of range: want 0 to 31 (--iptables-masquerade-bit)'],
  ],
  [
    ['--proxy-mode=ipvs', '--oom-score-adj', '-1001'],
    ['KubeProxyConfiguration.oomScoreAdj: -1001 is out of range: want -1000 to 1000 (--oom-score-adj)'],
  ],
  [
    ['--proxy-mode=ipvs', '--kube-api-burst=-1'],
    ['KubeProxyConfiguration.clientConnection.burst: -1 is out of range: want 0 or more (--kube-api-burst)'],
  ],
  [
    ['--proxy-mode=ipvs', '--conntrack-min=-1', '--conntrack-max-per-core=-2'],
    [
      'KubeProxyConfiguration.conntrack.maxPerCore: -2 is out of range: want 0 or more (--conntrack-max-per-core)',
      'KubeProxyConfiguration.conntrack.min: -1 is out of range: want 0 or more (--conntrack-min)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--conntrack-tcp-timeout-close-wait=-1s'],
    [
      'KubeProxyConfiguration.conntrack.tcpCloseWaitTimeout: -1s is negative: want 0s or more (--conntrack-tcp-timeout-close-wait)',
    ],
  ],
  [
    ['--proxy-mode=ipvs', '--logging-format=xml'],
    ['KubeProxyConfiguration.logging.format: "xml" is none of text, json (--logging-format)'],
  ],
  [
    ['--proxy-mode=ipvs', '--logging-format=json', '--vmodule=a=1'],
    ['KubeProxyConfiguration.logging.vmodule: works with logging.format text only (--vmodule)'],
  ],
  [
    ['--proxy-mode=ipvs', '--show-hidden-metrics-for-version=1'],
    [
      'KubeProxyConfiguration.showHiddenMetricsForVersion: "1" is not a version: want <major>.<minor> (--show-hidden-metrics-for-version)',
    ],
  ],
  [['--proxy-mode=ipvs', '--ipvs-drain-timeout=-1s'], ['--ipvs-drain-timeout: -1s is negative: want 0s or more']],
  [
    ['--proxy-mode=ipvs', '--masquerade-port-range=1024'],
    ['--masquerade-port-range: want <from>-<to> with ports from 1 to 65535, the lower one first, got "1024"'],
  ],
  [
    ['--proxy-mode=ipvs', '--masquerade-port-range=2000-1000'],
    ['--masquerade-port-range: want <from>-<to> with ports from 1 to 65535, the lower one first, got "2000-1000"'],
  ],
  [
    ['--proxy-mode=ipvs', '--masquerade-port-range=0-100'],
    ['--masquerade-port-range: want <from>-<to> with ports from 1 to 65535, the lower one first, got "0-100"'],
  ],
  [
    ['--proxy-mode=ipvs', '--masquerade-port-range=1-65536'],
    ['--masquerade-port-range: want <from>-<to> with ports from 1 to 65535, the lower one first, got "1-65536"'],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-unbound-cidrs=10.0.0.0/8,10.0.0.1'],
    ['--ipvs-unbound-cidrs: want CIDRs such as "10.0.0.0/8,fd00::/64", got "10.0.0.0/8,10.0.0.1"'],
  ],
  [
    ['--proxy-mode=ipvs', '--ipvs-local-route-cidrs=0.0.0.0/0,10.96.0.0/12,fd00::/47'],
    [
      '--ipvs-local-route-cidrs: 0.0.0.0/0 is too large: want a service CIDR of at least /8',
      '--ipvs-local-route-cidrs: fd00::/47 is too large: want a service CIDR of at least /48',
    ],
  ],
  [['--proxy-mode=ipvs', '--ipvs-run-estimation=off'], ['--ipvs-run-estimation: want true or false, got "off"']],
  [
    ['--proxy-mode=ipvs', '--manifests=a', '--master=https://b'],
    ['--manifests and --master exclude each other: objects come from a directory or from an API server'],
  ],
  [
    ['--proxy-mode=ipvs', '--manifests=a', '--kubeconfig=/nope'],
    ['--manifests and --kubeconfig exclude each other: objects come from a directory or from an API server'],
  ],
  [
    ['--proxy-mode=ipvs', '--dry-run', '--cleanup', '--init-only'],
    [
      '--dry-run and --cleanup exclude each other',
      '--cleanup and --init-only exclude each other',
      '--dry-run and --init-only exclude each other',
    ],
  ],
  [
    ['--proxy-mode=userspace', '--dry-run'],
    [
      '--dry-run compares what the kernel has, but in userspace mode only the daemon knows the endpoints: use diff beside it, or choose another mode',
    ],
  ],
  [
    ['--cleanup', '--proxy-mode=foo'],
    ['KubeProxyConfiguration.mode: "foo" is none of iptables, ipvs, nftables, userspace (--proxy-mode)'],
  ],
  [
    ['--cleanup', '--conntrack-min=-1'],
    ['KubeProxyConfiguration.conntrack.min: -1 is out of range: want 0 or more (--conntrack-min)'],
  ],
  [
    ['--write-config-to=x', '--bind-address=y'],
    ['KubeProxyConfiguration.bindAddress: "y" is not an IP address (--bind-address)'],
  ],
  [
    ['--init-only'],
    [
      'no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of docs/modes.md',
    ],
  ],
];

describe('a command line that is wrong', () => {
  test.each(CASES)('%j', (argv, errors) => {
    expect(errorsOf(argv)).toEqual(errors);
  });
});
