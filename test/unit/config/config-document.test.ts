import { describe, expect, test } from '@jest/globals';
import { readConfigDocument, writeConfigDocument } from '../../../src/config/config-document.ts';
import { DEFAULTS, FIELD_PATHS, type FieldPath, type Settings } from '../../../src/config/flags/settings.ts';

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

function read(fields: string): ReturnType<typeof readConfigDocument> {
  return readConfigDocument(HEAD + fields, 'f.yaml');
}

/** What a file's fields become, where that is not what they say. */
const DEFAULTED: readonly (readonly [fields: string, path: FieldPath, value: unknown])[] = [
  ['', 'bindAddress', '0.0.0.0'],
  ['bindAddress: ""', 'bindAddress', '0.0.0.0'],
  ['bindAddress: null', 'bindAddress', '0.0.0.0'],
  ['', 'healthzBindAddress', '0.0.0.0:10256'],
  ['healthzBindAddress: ""', 'healthzBindAddress', '0.0.0.0:10256'],
  ['healthzBindAddress: 10.0.0.1', 'healthzBindAddress', '10.0.0.1:10256'],
  ['healthzBindAddress: "fd00::1"', 'healthzBindAddress', '[fd00::1]:10256'],
  ['healthzBindAddress: 10.0.0.1:80', 'healthzBindAddress', '10.0.0.1:80'],
  ['bindAddress: "::"', 'healthzBindAddress', '[::]:10256'],
  ['bindAddress: "fd00::1"', 'metricsBindAddress', '[::1]:10249'],
  ['bindAddress: "::"\nmetricsBindAddress: ""', 'metricsBindAddress', '[::1]:10249'],
  ['bindAddress: "::"\nmetricsBindAddress: 127.0.0.1', 'metricsBindAddress', '127.0.0.1:10249'],
  ['', 'metricsBindAddress', '127.0.0.1:10249'],
  ['mode: ipvs', 'ipvs.minSyncPeriod', 0],
  ['mode: ipvs\nipvs: {syncPeriod: 0s}', 'ipvs.syncPeriod', 30_000],
  ['ipvs: null', 'ipvs.syncPeriod', 30_000],
  ['configSyncPeriod: "0"', 'configSyncPeriod', 900_000],
  ['clientConnection: {qps: 0, burst: 0, contentType: ""}', 'clientConnection.qps', 5],
  ['clientConnection: {burst: 0}', 'clientConnection.burst', 10],
  ['clientConnection: {contentType: ""}', 'clientConnection.contentType', 'application/vnd.kubernetes.protobuf'],
  ['conntrack: {maxPerCore: 0}', 'conntrack.maxPerCore', 0],
  ['conntrack: {maxPerCore: null}', 'conntrack.maxPerCore', 32_768],
  ['conntrack: {tcpEstablishedTimeout: 0s}', 'conntrack.tcpEstablishedTimeout', 0],
  ['oomScoreAdj: 0', 'oomScoreAdj', 0],
  ['iptables: {masqueradeBit: 0}', 'iptables.masqueradeBit', 0],
  ['iptables: {minSyncPeriod: 0s}', 'iptables.minSyncPeriod', 1000],
  ['iptables: {localhostNodePorts: null}', 'iptables.localhostNodePorts', true],
  ['logging: {flushFrequency: 5000000000}', 'logging.flushFrequency', 5000],
  ['logging: {flushFrequency: 250ms}', 'logging.flushFrequency', 250],
  ['logging: {options: {json: {infoBufferSize: 4096}}}', 'logging.options.json.infoBufferSize', '4096'],
  // Go's reader takes these words for booleans, and never makes times or base-60 numbers of plain text.
  ['enableProfiling: yes', 'enableProfiling', true],
  ['bindAddressHardFail: off', 'bindAddressHardFail', false],
  ['hostnameOverride: 2024-01-01', 'hostnameOverride', '2024-01-01'],
  ['hostnameOverride: 12:30', 'hostnameOverride', '12:30'],
  ['oomScoreAdj: 010', 'oomScoreAdj', 8],
];

describe('reading', () => {
  test.each(DEFAULTED)('%j: %s', (fields, path, value) => {
    expect(read(fields).fields[path]).toEqual(value);
  });

  test('the configuration file may be JSON, with tabs', () => {
    const json = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      ipvs: { excludeCIDRs: ['10.0.0.0/8'] },
    };
    for (const indent of [undefined, 2, '\t']) {
      expect(readConfigDocument(JSON.stringify(json, undefined, indent), 'f').fields['ipvs.excludeCIDRs']).toEqual([
        '10.0.0.0/8',
      ]);
    }
  });

  test('an empty second document in the configuration file is ignored', () => {
    expect(read('mode: ipvs\n---\n').fields.mode).toBe('ipvs');
  });

  test('aliases and merge keys of YAML are resolved', () => {
    expect(read('x: &a {syncPeriod: 7s}\nipvs: {<<: *a}').fields['ipvs.syncPeriod']).toBe(7000);
    expect(read('x: &a {syncPeriod: 7s}\nipvs: {<<: *a, syncPeriod: 8s}').fields['ipvs.syncPeriod']).toBe(8000);
  });

  test('a file whose aliases expand without limit is refused', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 8; i++)
      lines.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      );
    expect(() => read(lines.join('\n'))).toThrow('cannot be read as YAML or JSON: aliases exceeded');
  });

  test('__proto__ in the configuration file is an ordinary key', () => {
    expect(read('__proto__: {mode: nftables}').fields.mode).toBe('');
    expect(({} as Record<string, unknown>)['mode']).toBeUndefined();
  });
});

const WARNED: readonly (readonly [fields: string, warnings: readonly string[]])[] = [
  ['', []],
  ['colour: blue', ['unknown field "colour"']],
  ['ipvs: {minSyncperiod: 1s}', ['unknown field "ipvs.minSyncperiod": did you mean "ipvs.minSyncPeriod"?']],
  ['iptable: {}', ['unknown field "iptable": did you mean "iptables"?']],
  ['Mode: ipvs', ['unknown field "Mode": did you mean "mode"?']],
  ['ipvs: {a: 1, b: {c: 2}}', ['unknown field "ipvs.a"', 'unknown field "ipvs.b"']],
  ['linux: {oomScoreAdj: 1}', ['unknown field "linux"']],
  ['mode: ipvs\nmode: ipvs', ['key "mode" is there twice; the last one counts']],
  ['ipvs:\n  syncPeriod: 1s\n  syncPeriod: 2s', ['key "ipvs.syncPeriod" is there twice; the last one counts']],
  ['ipvs: {}\nipvs: {}', ['key "ipvs" is there twice; the last one counts']],
  [
    'logging: {vmodule: [{filePattern: a, verbosity: 1, verbosity: 2}]}',
    ['key "logging.vmodule[0].verbosity" is there twice; the last one counts'],
  ],
  ['kind: KubeProxyConfiguration', ['key "kind" is there twice; the last one counts']],
  [
    'foo: 1\nbindAddress: 1.2.3.4\nbindAddress: 1.2.3.5',
    ['unknown field "foo"', 'key "bindAddress" is there twice; the last one counts'],
  ],
];

describe('what only strict decoding refuses', () => {
  test.each(WARNED)('%j', (fields, warnings) => {
    expect(read(fields).warnings).toEqual(warnings);
  });

  test('of two equal keys in the configuration file, the last one counts', () => {
    expect(read('bindAddress: 1.2.3.4\nbindAddress: 1.2.3.5').fields.bindAddress).toBe('1.2.3.5');
  });
});

describe('writing', () => {
  test('the written configuration file has the defaults', () => {
    expect(writeConfigDocument(DEFAULTS)).toMatchSnapshot();
  });

  test('a written configuration file that is read again is unchanged', () => {
    const changes: readonly (readonly [FieldPath, unknown])[] = [
      ['mode', 'ipvs'],
      ['hostnameOverride', 'yes'],
      ['clusterCIDR', '10.0.0.0/8,fd00::/64'],
      ['nodePortAddresses', ['10.0.0.0/8', 'fd00::/64']],
      ['featureGates', { AllAlpha: true, AllBeta: false }],
      ['clientConnection.qps', 2.5],
      ['oomScoreAdj', 0],
      ['conntrack.maxPerCore', 0],
      ['conntrack.tcpEstablishedTimeout', 0],
      ['ipvs.minSyncPeriod', 1000],
      ['ipvs.scheduler', 'lc'],
      ['ipvs.tcpTimeout', 90_000.000001],
      ['ipvs.excludeCIDRs', []],
      ['logging.vmodule', [{ filePattern: 'kube/*', verbosity: 4 }]],
      ['logging.flushFrequency', 1],
      ['logging.options.json.infoBufferSize', '64Ki'],
      ['portRange', '1-2'],
      ['winkernel.networkName', 'null'],
    ];
    const settings = { ...DEFAULTS, ...(Object.fromEntries(changes) as Partial<Settings>) };
    const again = readConfigDocument(writeConfigDocument(settings), 'again');
    expect(again.fields).toEqual(settings);
    expect(again.warnings).toEqual([]);
  });

  test('the written configuration file has every field', () => {
    const text = writeConfigDocument(DEFAULTS);
    for (const path of FIELD_PATHS) expect(text).toMatch(new RegExp(`^ *${path.split('.').at(-1)}:`, 'm'));
  });
});
