import { describe, expect, test } from '@jest/globals';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { configz } from '../../../src/config/configz.ts';
import { readConfigDocument, writeConfigDocument } from '../../../src/config/config-document.ts';
import type { ProxyConfig } from '../../../src/config/proxy-config.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { parseLabelSelector } from '../../../src/base/label-selector.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { parseIp } from '../../../src/base/ip.ts';

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n';

/** @param fields of a file, mode: ipvs among them; without it flags alone */
function resolve(argv: readonly string[], fields?: string): ProxyConfig {
  const parsed = parseArgv(fields === undefined ? argv : ['--config=f.yaml', ...argv]);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  if (fields === undefined) return resolveConfig(parsed.given, undefined);
  const file = readConfigDocument(HEAD + fields, 'f.yaml');
  return resolveConfig(parsed.given, { ...file, path: 'f.yaml', sha256: 'abc' });
}

const cidrs = (...texts: readonly string[]): ProxyConfig['clusterCidrs'] => texts.map((text) => parseCidr(text)!);

type Case = readonly [argv: readonly string[], fields: string | undefined, part: Partial<ProxyConfig>];

const IPVS = '--proxy-mode=ipvs';
const CASES: readonly Case[] = [
  // The shortest time between syncs: a second from flags alone, none from a file.
  [[IPVS], undefined, { minSyncPeriod: 1000, syncPeriod: 30_000 }],
  [[IPVS, '--ipvs-min-sync-period=0'], undefined, { minSyncPeriod: 0 }],
  [
    [IPVS, '--ipvs-min-sync-period=5s', '--ipvs-sync-period=1m'],
    undefined,
    { minSyncPeriod: 5000, syncPeriod: 60_000 },
  ],
  [
    [IPVS, '--iptables-min-sync-period=9s', '--iptables-sync-period=9m'],
    undefined,
    { minSyncPeriod: 1000, syncPeriod: 30_000 },
  ],
  [[], '', { minSyncPeriod: 0, syncPeriod: 30_000 }],
  [['--ipvs-min-sync-period=5s'], '', { minSyncPeriod: 0 }],
  // The file replaces what flags say ...
  [
    ['--proxy-mode=iptables', '--cluster-cidr=10.0.0.0/8'],
    '',
    { clusterCidrs: [], configFile: { path: 'f.yaml', sha256: 'abc' } },
  ],
  [
    ['--kubeconfig=/flag'],
    'clientConnection: {kubeconfig: /file}',
    {
      api: {
        kubeconfig: '/file',
        master: '',
        qps: 5,
        burst: 10,
        accept: 'application/vnd.kubernetes.protobuf, */*',
      },
    },
  ],
  [
    ['--healthz-port=0', '--metrics-port=0'],
    '',
    {
      healthzBind: { address: parseIp('0.0.0.0')!, port: 10_256 as never },
      metricsBind: { address: parseIp('127.0.0.1')!, port: 10_249 as never },
    },
  ],
  // ... except for the node's name, logging and flags without a field.
  [['--hostname-override= Node-A '], 'hostnameOverride: file', { hostnameOverride: 'node-a' }],
  [['--hostname-override='], 'hostnameOverride: File', { hostnameOverride: 'file' }],
  [
    ['-v=4', '--logging-format=json'],
    'logging: {verbosity: 1}',
    { logging: { format: 'json', verbosity: 4, vmodule: [], splitStream: false } },
  ],
  [
    ['-v2'],
    'logging: {format: json, options: {json: {splitStream: true}}}',
    { logging: { format: 'json', verbosity: 2, vmodule: [], splitStream: true } },
  ],
  [
    ['--vmodule=a=1', '--vmodule=b=2,c=3'],
    'logging: {vmodule: [{filePattern: d, verbosity: 4}]}',
    {
      logging: {
        format: 'text',
        verbosity: 0,
        vmodule: ['a', 'b', 'c', 'd'].map((filePattern, i) => ({ filePattern, verbosity: i + 1 })),
        splitStream: false,
      },
    },
  ],
  [
    ['--ipvs-drain-timeout=5m', '--masquerade-port-range=1024-2048', '--manifests=/m'],
    '',
    { drainTimeout: 300_000, masqueradePorts: { from: 1024 as never, to: 2048 as never }, manifests: '/m' },
  ],
  [
    ['--ipvs-unbound-cidrs=10.203.0.1/16,fd00:203::/64', '--ipvs-unbound-cidrs=192.0.2.0/24'],
    '',
    { unboundCidrs: ['10.203.0.0/16', 'fd00:203::/64', '192.0.2.0/24'].map((text) => parseCidr(text)!) },
  ],
  [
    ['--ipvs-local-route-cidrs=10.96.0.1/12,fd00:96::/112'],
    '',
    { localRouteCidrs: ['10.96.0.0/12', 'fd00:96::/112'].map((text) => parseCidr(text)!) },
  ],
  [[IPVS, '--ipvs-run-estimation=false'], undefined, { runEstimation: false }],
  [[IPVS, '--ipvs-endpoint-check=act'], undefined, { endpointCheck: 'act' }],
  [[IPVS, '--ipvs-run-estimation=true'], undefined, { runEstimation: true }],
  [
    [IPVS, '--service-metrics-selector=tier in (front)'],
    undefined,
    { serviceMetrics: false, serviceMetricsSelector: parseLabelSelector('tier in (front)') },
  ],
  [[IPVS, '--service-metrics-selector='], undefined, { serviceMetricsSelector: undefined }],
  [[IPVS, '--service-metrics-real-servers'], undefined, { serviceMetricsRealServers: true, serviceMetricsLimit: 1000 }],
  // Servers that are off, moved, or given their port by the old flags.
  [[IPVS, '--healthz-port=0', '--metrics-port', '0'], undefined, { healthzBind: undefined, metricsBind: undefined }],
  [[IPVS, '--healthz-bind-address='], undefined, { healthzBind: undefined }],
  // The configured ports are those of the proxy beside which a dry run runs.
  [
    [IPVS, '--dry-run', '--healthz-bind-address=10.0.0.1:65500', '--bind-address-hard-fail'],
    undefined,
    {
      action: 'dry-run',
      healthzBind: { address: parseIp('10.0.0.1')!, port: 65_400 as never },
      metricsBind: { address: parseIp('127.0.0.1')!, port: 10_349 as never },
      bindAddressHardFail: false,
    },
  ],
  [[IPVS, '--dry-run', '--metrics-port=0'], undefined, { metricsBind: undefined }],
  [['--proxy-mode=nftables', '--dry-run'], undefined, { action: 'dry-run', mode: 'nftables' }],
  [[IPVS, '--metrics-bind-address=', '--metrics-port=80'], undefined, { metricsBind: undefined }],
  [[IPVS, '--healthz-port=80'], undefined, { healthzBind: { address: parseIp('0.0.0.0')!, port: 10_256 as never } }],
  [
    [IPVS, '--healthz-bind-address=10.0.0.1', '--healthz-port=80'],
    undefined,
    { healthzBind: { address: parseIp('10.0.0.1')!, port: 80 as never } },
  ],
  [
    [IPVS, '--healthz-bind-address=fd00::1'],
    undefined,
    { healthzBind: { address: parseIp('fd00::1')!, port: 10_256 as never } },
  ],
  [[IPVS, '--metrics-bind-address=[::]:9'], undefined, { metricsBind: { address: parseIp('::')!, port: 9 as never } }],
  // Actions.
  [['--cleanup'], undefined, { action: 'cleanup' }],
  [['--cleanup', '--proxy-mode=nftables'], undefined, { action: 'cleanup' }],
  [['--proxy-mode=nftables'], undefined, { mode: 'nftables', scheduler: 'random', minSyncPeriod: 1000, notes: [] }],
  [
    ['--proxy-mode=nftables', '--iptables-min-sync-period=0s', '--masquerade-all', '--iptables-masquerade-bit=3'],
    undefined,
    { minSyncPeriod: 0, masqueradeAll: true, masqueradeBit: 3, notes: [] },
  ],
  [
    ['--proxy-mode=nftables', '--ipvs-scheduler=lc', '--service-annotations=scheduler', '--ipvs-strict-arp'],
    undefined,
    {
      scheduler: 'random',
      serviceAnnotations: [],
      strictArp: false,
      notes: [
        'no effect in nftables mode, which has no IPVS and chooses endpoints at random: --ipvs-scheduler, --ipvs-strict-arp, --service-annotations',
      ],
    },
  ],
  [
    ['--proxy-mode=userspace', '--service-annotations=scheduler,one-packet', '--ipvs-strict-arp'],
    undefined,
    {
      scheduler: 'rr',
      serviceAnnotations: ['scheduler'],
      notes: ['no effect in userspace mode, which has no IPVS and chooses endpoints in turn: --ipvs-strict-arp'],
    },
  ],
  // What ipvs mode left must not cost other programs theirs.
  [['--proxy-mode=nftables', '--ipvs-exclude-cidrs=192.0.2.0/24'], undefined, { notes: [] }],
  [['--proxy-mode=nftables', '--ipvs-unbound-cidrs=192.0.2.0/24'], undefined, { notes: [] }],
  [
    ['--proxy-mode=iptables', '--ipvs-unbound-cidrs=192.0.2.0/24', '--service-metrics-limit=9', '--dsr-netns-dir=/n'],
    undefined,
    {
      notes: [
        'no effect in iptables mode, which has no IPVS and chooses endpoints at random: --ipvs-unbound-cidrs, --dsr-netns-dir, --service-metrics-limit',
      ],
    },
  ],
  [
    [
      '--proxy-mode=iptables',
      '--iptables-sync-period=5s',
      '--masquerade-all',
      '--ipvs-scheduler=lc',
      '--ipvs-sync-period=9s',
    ],
    undefined,
    {
      mode: 'iptables',
      scheduler: 'random',
      syncPeriod: 5000,
      minSyncPeriod: 1000,
      masqueradeAll: true,
      notes: [
        'no effect in iptables mode, which has no IPVS and chooses endpoints at random: --ipvs-scheduler',
        'no effect in iptables mode: --ipvs-sync-period',
      ],
    },
  ],
  [['--cleanup', '--init-only=false', IPVS], undefined, { action: 'cleanup' }],
  [['--cleanup=false', '--init-only', IPVS], undefined, { action: 'init-only' }],
  [[IPVS], undefined, { action: 'run' }],
  // Values in the program's own types.
  [
    [IPVS],
    undefined,
    {
      scheduler: 'rr',
      detectLocalMode: 'ClusterCIDR',
      masqueradeBit: 14,
      masqueradeAll: false,
      nodePortAddresses: { primary: false, cidrs: [] },
      excludeCidrs: [],
      unboundCidrs: [],
      localRouteCidrs: [],
      runEstimation: undefined,
      endpointCheck: 'off',
      nodeIpOverride: undefined,
      hostnameOverride: undefined,
      drainTimeout: 0,
      serviceMetrics: false,
      serviceMetricsSelector: undefined,
      serviceMetricsRealServers: false,
      masqueradePorts: undefined,
      oomScoreAdj: -999,
      strictArp: false,
      configFile: undefined,
    },
  ],
  [
    [IPVS, '--ipvs-scheduler=lc', '--masquerade-all', '--iptables-masquerade-bit=0x1f'],
    undefined,
    { scheduler: 'lc', masqueradeAll: true, masqueradeBit: 31 },
  ],
  [
    [IPVS, '--cluster-cidr=10.244.0.0/16,fd00:10::/56'],
    undefined,
    { clusterCidrs: [parseCidr('10.244.0.0/16')!, parseCidr('fd00:10::/56')!] },
  ],
  [
    [IPVS, '--nodeport-addresses=10.0.0.0/8', '--nodeport-addresses', '192.168.0.0/16,fd00::/8'],
    undefined,
    { nodePortAddresses: { primary: false, cidrs: cidrs('10.0.0.0/8', '192.168.0.0/16', 'fd00::/8') } },
  ],
  [[IPVS, '--nodeport-addresses=primary'], undefined, { nodePortAddresses: { primary: true, cidrs: [] } }],
  [
    [IPVS, '--nodeport-addresses=primary,localhost,10.0.0.0/8'],
    undefined,
    { nodePortAddresses: { primary: true, cidrs: cidrs('127.0.0.0/8', '::1/128', '10.0.0.0/8') } },
  ],
  [
    [],
    `nodePortAddresses: [all, 10.0.0.0/8, 10.0.0.0/8, primary]`,
    { nodePortAddresses: { primary: true, cidrs: cidrs('0.0.0.0/0', '::/0', '10.0.0.0/8', '10.0.0.0/8') } },
  ],
  [[IPVS, '--nodeport-addresses='], undefined, { nodePortAddresses: { primary: false, cidrs: [] } }],
  [[IPVS, '--bind-address=::'], undefined, { nodeIpOverride: undefined }],
  [[IPVS, '--bind-address=010.0.0.1'], undefined, { nodeIpOverride: parseIp('10.0.0.1')! }],
  [
    [IPVS, '--detect-local-mode=BridgeInterface', '--pod-bridge-interface=cbr0'],
    undefined,
    { detectLocalMode: 'BridgeInterface', bridgeInterface: 'cbr0' },
  ],
  [
    [IPVS, '--detect-local-mode=InterfaceNamePrefix', '--pod-interface-name-prefix=veth'],
    undefined,
    { detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth' },
  ],
  [
    [IPVS, '--ipvs-tcp-timeout=1h', '--ipvs-tcpfin-timeout=2m', '--ipvs-udp-timeout=5m'],
    undefined,
    { ipvsTimeouts: { tcp: 3_600_000, tcpFin: 120_000, udp: 300_000 } },
  ],
  [
    [IPVS, '--kube-api-qps=0', '--kube-api-burst=0', '--master=https://a', '--kubeconfig', '/k'],
    undefined,
    {
      api: {
        kubeconfig: '/k',
        master: 'https://a',
        qps: 5,
        burst: 10,
        accept: 'application/vnd.kubernetes.protobuf, */*',
      },
    },
  ],
  [
    [IPVS, '--kube-api-qps=-1'],
    undefined,
    {
      api: {
        kubeconfig: '',
        master: '',
        qps: -1,
        burst: 10,
        accept: 'application/vnd.kubernetes.protobuf, */*',
      },
    },
  ],
  [
    [IPVS, '--kube-api-content-type=application/json', '--kube-api-qps=1', '--kube-api-burst=2'],
    undefined,
    { api: { kubeconfig: '', master: '', qps: 1, burst: 2, accept: 'application/json, */*' } },
  ],
  [
    [],
    'clientConnection: {acceptContentTypes: "application/json;q=1", qps: 1, burst: 2}',
    { api: { kubeconfig: '', master: '', qps: 1, burst: 2, accept: 'application/json;q=1' } },
  ],
  // The last of two values wins; underscores are dashes; a switch takes its value with "=" only.
  [[IPVS, '--ipvs-scheduler=rr', '--ipvs-scheduler', 'sed'], undefined, { scheduler: 'sed' }],
  [['--proxy_mode', 'ipvs', '--ipvs_strict_arp'], undefined, { strictArp: true }],
  [[IPVS, '--ipvs-strict-arp', '--ipvs-strict-arp=F'], undefined, { strictArp: false }],
  [[IPVS, '--oom-score-adj', '-5'], undefined, { oomScoreAdj: -5 }],
];

describe('flags and file together', () => {
  test.each(CASES)('%j and file %j', (argv, fields, part) => {
    expect(resolve(argv, fields)).toMatchObject(part);
    for (const [key, value] of Object.entries(part))
      expect(resolve(argv, fields)[key as keyof ProxyConfig]).toEqual(value);
  });
});

const NOTES: readonly (readonly [argv: readonly string[], fields: string | undefined, notes: readonly string[]])[] = [
  [
    ['--manifests=/m'],
    'clientConnection: {kubeconfig: /file}',
    ['clientConnection.kubeconfig has no effect with --manifests: no API server is asked'],
  ],
  [[IPVS], undefined, []],
  [
    [IPVS, '--service-metrics-real-servers'],
    undefined,
    ['--service-metrics-real-servers has no effect without --service-metrics or --service-metrics-selector'],
  ],
  [[IPVS, '--service-metrics-real-servers', '--service-metrics'], undefined, []],
  [[IPVS, '--logtostderr'], undefined, ['--logtostderr has no effect: kube-proxy no longer has it; remove it']],
  [[IPVS, '--healthz-port=10256'], undefined, ['--healthz-port is deprecated: use --healthz-bind-address']],
  [[IPVS, '--iptables-sync-period=1s'], undefined, ['no effect in ipvs mode: --iptables-sync-period']],
  [
    [IPVS, '--cluster-cidr=10.0.0.0/8', '-v=1', '--master=x'],
    '',
    ['ignored, because --config is given: --proxy-mode, --cluster-cidr'],
  ],
  [[], 'colour: blue', ['unknown field "colour"']],
  [
    ['--write-config-to=x', '--healthz-bind-address='],
    undefined,
    ['healthzBindAddress is empty here, but in a file that --config reads, an empty value means the default'],
  ],
];

test.each(NOTES)('%j and file %j: what the log says', (argv, fields, notes) => {
  expect(resolve(argv, fields).notes).toEqual(notes);
});

const ROUND_TRIPS: readonly (readonly string[])[] = [
  [IPVS],
  [IPVS, '--ipvs-scheduler=mh', '--ipvs-min-sync-period=2s', '--ipvs-exclude-cidrs=10.0.0.0/8,fd00::/8'],
  [
    IPVS,
    '--feature-gates=AllAlpha=true,ComponentFlagz=false',
    '--nodeport-addresses=primary',
    '--hostname-override=Node-1',
  ],
  [IPVS, '--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0', '--conntrack-udp-timeout=2m5.5s'],
  [IPVS, '--vmodule=a=1,b/*=2', '-v=9', '--logging-format=text', '--log-text-split-stream'],
  [IPVS, '--bind-address=fd00::1', '--healthz-bind-address=[fd00::1]:80', '--metrics-bind-address=fd00::1'],
  [IPVS, '--kube-api-qps=0', '--kube-api-burst=0', '--kube-api-content-type='],
];

test.each(ROUND_TRIPS)('--write-config-to and --config: %s %s %s %s', (...argv) => {
  const written = resolve([...argv, '--write-config-to=x']);
  const file = readConfigDocument(writeConfigDocument(written.settings), 'written');
  expect(file.warnings).toEqual([]);
  const again = resolveConfig({ config: 'written' }, { ...file, path: 'written', sha256: '' });
  const { settings: _settings, notes: _notes, configFile: _file, ...rest } = resolve(argv);
  expect(again).toMatchObject(rest);
});

test('a feature gate has the value given for its name, otherwise for its stage, otherwise its default', () => {
  const gates = new Map(
    resolve([IPVS, '--feature-gates=AllBeta=false,AllAlpha=true,ComponentFlagz=true']).featureGates.map((gate) => [
      gate.name,
      gate,
    ]),
  );
  expect(gates.get('ComponentStatusz')).toEqual({ name: 'ComponentStatusz', stage: 'BETA', enabled: false });
  expect(gates.get('ComponentFlagz')?.enabled).toBe(true);
  expect(gates.get('KubeProxyNFTablesLocalhostNodePorts')?.enabled).toBe(true);
  expect(gates.get('KubeProxyIPVS')).toEqual({ name: 'KubeProxyIPVS', stage: 'DEPRECATED', enabled: true });
  expect(gates.get('WinDSR')?.enabled).toBe(true);
  expect(gates.get('NFTablesProxyMode')).toEqual({ name: 'NFTablesProxyMode', stage: '', enabled: true });
});

test('feature gates of other components are accepted, logged in one line, and have no effect', () => {
  const without = resolve([IPVS]);
  const config = resolve([IPVS, '--feature-gates=SidecarContainers=true,AllBeta=true,KubeProxyIPVS=false']);
  expect(config.notes).toEqual([
    'feature gates of other components have no effect: SidecarContainers',
    expect.stringMatching(
      /^the feature gate KubeProxyIPVS is off, with which kube-proxy would not start in ipvs mode:/,
    ),
  ]);
  expect(config.mode).toBe('ipvs');
  expect(resolve(['--proxy-mode=nftables', '--feature-gates=KubeProxyIPVS=false']).notes).toEqual([]);
  expect(config.featureGates.map(({ name }) => name)).toEqual(without.featureGates.map(({ name }) => name));
  expect(config.settings.featureGates).toEqual({ SidecarContainers: true, AllBeta: true, KubeProxyIPVS: false });
  expect(resolve([IPVS, '--feature-gates=KubeProxyIpvs=true,InPlacePodVerticalScaling=false']).notes).toEqual([
    'feature gates of other components have no effect: KubeProxyIpvs (did you mean KubeProxyIPVS?), InPlacePodVerticalScaling',
  ]);
});

test('/configz has the configuration in force as v1alpha1', () => {
  expect(configz(resolve([IPVS, '--cluster-cidr=10.0.0.0/8', '--ipvs-scheduler=lc']))).toMatchObject({
    'kubeproxy.config.k8s.io': {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'ipvs',
      bindAddress: '0.0.0.0',
      clusterCIDR: '10.0.0.0/8',
      ipvs: { scheduler: 'lc', strictARP: false, tcpTimeout: '0s', minSyncPeriod: '1s' },
      conntrack: { maxPerCore: 32_768, tcpEstablishedTimeout: '24h0m0s' },
      oomScoreAdj: -999,
      configSyncPeriod: '15m0s',
    },
  });
});

test('a file in nftables mode: its own section is in force, and the log and /configz say so', () => {
  const fields = [
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1',
    'kind: KubeProxyConfiguration',
    'mode: nftables',
    'iptables: {masqueradeAll: true, syncPeriod: 7s}',
    'ipvs: {minSyncPeriod: 2s}',
    'nftables: {masqueradeBit: 3, syncPeriod: 5s}',
  ];
  const file = { ...readConfigDocument(fields.join('\n'), 'f.yaml'), path: 'f.yaml', sha256: 'abc' };
  const config = resolveConfig({ config: 'f.yaml' }, file);
  expect(config).toMatchObject({ masqueradeAll: false, masqueradeBit: 3, syncPeriod: 5000, minSyncPeriod: 1000 });
  expect(config.notes).toEqual([
    'no effect in nftables mode, which reads the section nftables instead: ipvs.minSyncPeriod, iptables.syncPeriod, iptables.masqueradeAll',
  ]);
  expect(configz(config)).toMatchObject({
    'kubeproxy.config.k8s.io': {
      mode: 'nftables',
      nftables: { masqueradeBit: 3, masqueradeAll: false, syncPeriod: '5s' },
    },
  });
});

test('in ipvs mode, masquerading is read from the section iptables, and the note says so', () => {
  expect(resolve([], 'nftables: {masqueradeAll: true}').notes).toEqual([
    'no effect in ipvs mode, which reads the sections ipvs and iptables instead: nftables.masqueradeAll',
  ]);
});
