import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { SERVICE_ANNOTATIONS } from '../../../src/base/service/service-annotations.ts';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { readConfigDocument, writeConfigDocument } from '../../../src/config/config-document.ts';
import { configz } from '../../../src/config/configz.ts';
import { ConfigError } from '../../../src/config/value/problem.ts';
import type { ProxyConfig } from '../../../src/config/proxy-config.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { selects } from '../../../src/base/label-selector.ts';

const FIRST = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n';
const OWN = 'apiVersion: kube-ipvs-proxy/v1alpha1\nkind: KubeIPVSProxyConfiguration\n';

function read(fields: string): ReturnType<typeof readConfigDocument> {
  return readConfigDocument(`${FIRST}---\n${OWN}${fields}`, 'f.yaml');
}

function configOf(fields: string, ...flags: readonly string[]): ProxyConfig {
  const parsed = parseArgv([...flags, '--config=f.yaml']);
  if (!parsed.ok) throw new Error(parsed.errors.join('; '));
  return resolveConfig(parsed.given, { ...read(fields), path: 'f.yaml', sha256: '' });
}

function errorsOf(text: string): readonly string[] {
  try {
    readConfigDocument(text, 'f.yaml');
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

const DEFAULTS = `
serviceDefaults:
  - selector: { matchLabels: { tier: front }, matchExpressions: [{ key: batch, operator: DoesNotExist }] }
    annotations: { scheduler: wrr, weights: "zone=a:3,zone=b:1" }
    override: true
  - selector: {}
    annotations: { drain-timeout: 5m, one-packet: "true" }
`;

describe('reading our own document', () => {
  test('a file without it has none of its fields', () => {
    expect(readConfigDocument(FIRST, 'f.yaml').own).toEqual({});
    expect(read('').own).toEqual({});
    expect(read('serviceAnnotations: null\nserviceDefaults: null').own).toEqual({});
  });

  test('defaults keep what the mode has of them', () => {
    const names = (mode: string): string[][] => {
      const file = readConfigDocument(`${FIRST.replace('ipvs', mode)}---\n${OWN}${DEFAULTS}`, 'f.yaml');
      const { serviceDefaults } = resolveConfig({ config: 'f.yaml' }, { ...file, path: 'f.yaml', sha256: '' });
      return serviceDefaults.map(({ annotations }) => annotations.map(({ name }) => name));
    };
    expect(names('ipvs')).toEqual([
      ['scheduler', 'weights'],
      ['drain-timeout', 'one-packet'],
    ]);
    expect(names('userspace')).toEqual([['scheduler', 'weights'], ['drain-timeout']]);
    expect(names('nftables')).toEqual([[], []]);
  });

  test('defaults have their place, their values and what these ask for', () => {
    const [first, second, ...others] = configOf(DEFAULTS).serviceDefaults;
    expect(first).toMatchObject({ path: 'serviceDefaults[0]', override: true });
    expect(first?.annotations).toEqual([
      { name: 'scheduler', value: 'wrr', requests: { scheduler: 'wrr' } },
      {
        name: 'weights',
        value: 'zone=a:3,zone=b:1',
        requests: {
          weights: [
            { zone: 'a', weight: 3 },
            { zone: 'b', weight: 1 },
          ],
        },
      },
    ]);
    expect(second).toMatchObject({ path: 'serviceDefaults[1]', override: false, selector: { terms: [] } });
    expect(others).toEqual([]);
  });

  test.each<[selector: string, selected: readonly object[], others: readonly object[]]>([
    ['{}', [{}, { a: '1' }], []],
    ['{matchLabels: {a: "1", b: ""}}', [{ a: '1', b: '' }], [{ a: '1' }, { b: '' }, { a: '2', b: '' }]],
    ['{matchLabels: {example.com/tier: x}}', [{ 'example.com/tier': 'x' }], [{ tier: 'x' }]],
    ['{matchExpressions: [{key: a, operator: In, values: ["1", "2"]}]}', [{ a: '2' }], [{}, { a: '3' }]],
    ['{matchExpressions: [{key: a, operator: NotIn, values: ["1"]}]}', [{}, { a: '2' }], [{ a: '1' }]],
    ['{matchExpressions: [{key: a, operator: Exists}]}', [{ a: '' }], [{}, { b: '' }]],
    ['{matchExpressions: [{key: a, operator: DoesNotExist, values: []}]}', [{}, { b: '' }], [{ a: '' }]],
    ['{matchLabels: {a: "1"}, matchExpressions: [{key: b, operator: Exists}]}', [{ a: '1', b: '2' }], [{ a: '1' }]],
  ])('a selector %s selects %j and not %j, as in the API', (selector, selected, others) => {
    const [entry] = configOf(
      `serviceDefaults: [{selector: ${selector}, annotations: {scheduler: lc}}]`,
    ).serviceDefaults;
    const matches = (labels: object): boolean => entry !== undefined && selects(entry.selector, { ...labels });
    expect([selected.map(matches), others.map(matches)]).toEqual([selected.map(() => true), others.map(() => false)]);
  });

  test.each([
    [
      'serviceAnnotation: []',
      'unknown field "KubeIPVSProxyConfiguration.serviceAnnotation": did you mean "serviceAnnotations"?',
    ],
    ['mode: ipvs', 'unknown field "KubeIPVSProxyConfiguration.mode"'],
    [
      'serviceDefaults: [{selector: {}, annotations: {scheduler: lc}, overide: true}]',
      'unknown field "KubeIPVSProxyConfiguration.serviceDefaults[0].overide": did you mean "override"?',
    ],
    [
      'serviceAnnotations: []\nserviceAnnotations: []',
      'key "KubeIPVSProxyConfiguration.serviceAnnotations" is there twice; the last one counts',
    ],
  ])('%s: is ignored with a warning, as in a KubeProxyConfiguration', (fields, warning) => {
    expect(read(fields).warnings).toEqual([warning]);
  });
});

const SCHEDULERS = 'rr, wrr, lc, wlc, lblc, lblcr, dh, sh, mh, sed, nq, fo, ovf, twos';
const NAMES =
  'scheduler, scheduler-flags, weights, connection-limit, drain-timeout, session-affinity-mask, one-packet, forwarding, endpoint-check';
const entry = (fields: string): string => `serviceDefaults: [{${fields}}]`;
const withSelector = (selector: string): string => entry(`selector: ${selector}, annotations: {scheduler: lc}`);
const withAnnotations = (annotations: string): string => entry(`selector: {}, annotations: ${annotations}`);

/** Each has one mistake: the path of the field, and what is wrong with it. */
const BAD: readonly (readonly [fields: string, path: string, text: string])[] = [
  ['endpointCheck: on', 'endpointCheck', 'want one of off, observe, act, got true'],
  ['serviceAnnotations: none', 'serviceAnnotations', `want a list of some of ${NAMES}, got "none"`],
  ['serviceAnnotations: [weights, limits]', 'serviceAnnotations[1]', `want one of ${NAMES}, got "limits"`],
  ['serviceDefaults: {}', 'serviceDefaults', 'want a list of objects with selector and annotations, got {}'],
  ['serviceDefaults: [x]', 'serviceDefaults[0]', 'want an object, got "x"'],
  [
    entry('annotations: {scheduler: lc}'),
    'serviceDefaults[0].selector',
    'is missing: want a label selector; {} selects all Services',
  ],
  [withSelector('[]'), 'serviceDefaults[0].selector', 'want an object, got []'],
  [withSelector('{app: web}'), 'serviceDefaults[0].selector', 'want only matchLabels, matchExpressions, got "app"'],
  [
    withSelector('{matchLabels: [a]}'),
    'serviceDefaults[0].selector.matchLabels',
    'want labels with values, such as {app: web}, got ["a"]',
  ],
  [
    withSelector('{matchLabels: {a: 1}}'),
    'serviceDefaults[0].selector.matchLabels.a',
    'want the value of a label, which is a string of at most 63 characters such as "web", got 1',
  ],
  [
    withSelector('{matchLabels: {"a b": x}}'),
    'serviceDefaults[0].selector.matchLabels',
    'want the name of a label such as "app" or "example.com/tier", got "a b"',
  ],
  [
    withSelector('{matchExpressions: {}}'),
    'serviceDefaults[0].selector.matchExpressions',
    'want a list of objects, got {}',
  ],
  [
    withSelector('{matchExpressions: [{key: a, operator: in, values: [x]}]}'),
    'serviceDefaults[0].selector.matchExpressions[0].operator',
    'want In, NotIn, Exists, DoesNotExist, got "in"',
  ],
  [
    withSelector('{matchExpressions: [{operator: Exists}]}'),
    'serviceDefaults[0].selector.matchExpressions[0].key',
    'want the name of a label such as "app" or "example.com/tier", got undefined',
  ],
  [
    withSelector('{matchExpressions: [{key: a, operator: In}]}'),
    'serviceDefaults[0].selector.matchExpressions[0].values',
    'want at least one value, because the operator is In, got []',
  ],
  [
    withSelector('{matchExpressions: [{key: a, operator: Exists, values: [x]}]}'),
    'serviceDefaults[0].selector.matchExpressions[0].values',
    'want no values, because the operator is Exists, got ["x"]',
  ],
  [
    withSelector('{matchExpressions: [{key: a, operator: In, values: ["x y"]}]}'),
    'serviceDefaults[0].selector.matchExpressions[0].values[0]',
    'want the value of a label, which is a string of at most 63 characters such as "web", got "x y"',
  ],
  [
    withSelector('{matchExpressions: [{key: a, op: In, operator: Exists}]}'),
    'serviceDefaults[0].selector.matchExpressions[0]',
    'want only key, operator, values, got "op"',
  ],
  [
    withAnnotations('{}'),
    'serviceDefaults[0].annotations',
    'want names of annotations with values, such as {scheduler: wrr}, got {}',
  ],
  [
    entry('selector: {}'),
    'serviceDefaults[0].annotations',
    'want names of annotations with values, such as {scheduler: wrr}, got undefined',
  ],
  [
    withAnnotations('{kube-ipvs-proxy/scheduler: lc}'),
    'serviceDefaults[0].annotations',
    `want some of ${NAMES}, got "kube-ipvs-proxy/scheduler": did you mean "scheduler"?`,
  ],
  [
    withAnnotations('{scheduler: wrrr}'),
    'serviceDefaults[0].annotations.scheduler',
    `want one of ${SCHEDULERS}, got "wrrr"`,
  ],
  [
    withAnnotations('{connection-limit: 100}'),
    'serviceDefaults[0].annotations.connection-limit',
    'want a string, got 100: put the value in quotes',
  ],
  [
    withAnnotations('{drain-timeout: soon}'),
    'serviceDefaults[0].annotations.drain-timeout',
    'want a duration such as "30s" or "1h30m", or "0s" for no limit, got "soon"',
  ],
  [
    entry('selector: {}, annotations: {scheduler: lc}, override: "yes"'),
    'serviceDefaults[0].override',
    'want true or false, got "yes"',
  ],
];

describe('a document that is refused', () => {
  test.each(BAD)('%s', (fields, path, text) => {
    expect(errorsOf(`${FIRST}---\n${OWN}${fields}`)).toEqual([`KubeIPVSProxyConfiguration.${path}: ${text}`]);
  });

  test('all mistakes are named, those of both documents', () => {
    const text = `${FIRST}oomScoreAdj: x\n---\n${OWN}${withAnnotations('{scheduler: x, weights: y}')}\nserviceAnnotations: 1`;
    expect(errorsOf(text).map((error) => error.split(':')[0])).toEqual([
      'KubeProxyConfiguration.oomScoreAdj',
      'KubeIPVSProxyConfiguration.serviceAnnotations',
      'KubeIPVSProxyConfiguration.serviceDefaults[0].annotations.scheduler',
      'KubeIPVSProxyConfiguration.serviceDefaults[0].annotations.weights',
    ]);
  });

  test.each([
    [
      `${OWN}---\n${FIRST}`,
      'f.yaml begins with a document of kind KubeIPVSProxyConfiguration: put it behind that of kind KubeProxyConfiguration, because kube-proxy reads only the first',
    ],
    [
      `${FIRST}---\n${OWN}---\n${OWN}`,
      'f.yaml contains more than two documents: it must contain one of kind KubeProxyConfiguration, and may then contain one of kind KubeIPVSProxyConfiguration',
    ],
    [`${FIRST}---\n7`, 'f.yaml contains 7 as second document: want an object of kind KubeIPVSProxyConfiguration'],
    [
      `${FIRST}---\n${OWN.replace('v1alpha1', 'v2')}`,
      'the second document of f.yaml has apiVersion "kube-ipvs-proxy/v2": only kube-ipvs-proxy/v1alpha1 can be read',
    ],
    [
      `${FIRST}---\n${OWN.replace('KubeIPVSProxyConfiguration', 'Service')}`,
      'the second document of f.yaml has kind "Service": want KubeIPVSProxyConfiguration',
    ],
  ])('%j', (text, error) => {
    expect(errorsOf(text)).toEqual([error]);
  });
});

describe('serviceAnnotations', () => {
  test('the file replaces the flag, as it does for the fields of kube-proxy; without the field, the flag applies', () => {
    const flag = '--service-annotations=scheduler';
    const both = configOf('serviceAnnotations: [weights, one-packet]', flag);
    expect(both.serviceAnnotations).toEqual(['weights', 'one-packet']);
    expect(both.notes).toEqual(['ignored, because --config is given: --service-annotations']);
    expect(configOf('serviceAnnotations: []').serviceAnnotations).toEqual([]);
    const flagOnly = configOf(DEFAULTS, flag);
    expect([flagOnly.serviceAnnotations, flagOnly.notes]).toEqual([['scheduler'], []]);
  });
});

test.each([
  ['observe', 'observe'],
  ['"off"', 'off'],
  ['off', 'off'],
  ['act', 'act'],
])('endpointCheck: %s replaces the flag', (text, wanted) => {
  expect(configOf(`endpointCheck: ${text}`, '--ipvs-endpoint-check=observe').endpointCheck).toBe(wanted);
});

test('/configz has our fields, apart from those of kube-proxy', () => {
  expect(configz(configOf(`serviceAnnotations: [weights]\n${withAnnotations('{scheduler: lc}')}`))).toMatchObject({
    'kubeproxy.config.k8s.io': { mode: 'ipvs' },
    'kube-ipvs-proxy': {
      serviceAnnotations: ['weights'],
      serviceDefaults: [{ selector: { matchExpressions: [] }, annotations: { scheduler: 'lc' }, override: false }],
    },
  });
});

test('what is written is read back the same', () => {
  const { settings, endpointCheck, serviceAnnotations, serviceDefaults } = configOf(
    `serviceAnnotations: [weights]\nendpointCheck: act${DEFAULTS}`,
  );
  const own = { endpointCheck, serviceAnnotations, serviceDefaults };
  expect(readConfigDocument(writeConfigDocument(settings, own), 'f.yaml').own).toEqual(own);
});

test('the schema of the chart knows the same annotations', () => {
  const text = readFileSync('charts/kube-ipvs-proxy/values.schema.json', 'utf8');
  const { definitions } = JSON.parse(text) as { definitions: { annotation: { enum: readonly string[] } } };
  expect(definitions.annotation.enum).toEqual(SERVICE_ANNOTATIONS);
});
