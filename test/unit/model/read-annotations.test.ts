import { describe, expect, test } from '@jest/globals';
import { SERVICE_ANNOTATIONS, type ServiceAnnotation } from '../../../src/base/service/service-annotations.ts';
import { readAnnotationValue } from '../../../src/base/service/annotation-value.ts';
import type { ServiceDefaults } from '../../../src/base/service/service-defaults.ts';
import { toPort } from '../../../src/base/port.ts';
import { type ReadAnnotations, readAnnotations } from '../../../src/model/read-annotations.ts';
import type { ServiceRequests } from '../../../src/base/service/service-requests.ts';

function read(
  annotations: Readonly<Record<string, string>>,
  permitted: readonly ServiceAnnotation[] = SERVICE_ANNOTATIONS,
  defaults: readonly ServiceDefaults[] = [],
): ReadAnnotations {
  const list = Object.entries(annotations).map(([name, value]) => ({ name, value }));
  const found = readAnnotations({ annotations: list, defaults }, new Set<ServiceAnnotation>(permitted));
  if (found === undefined) throw new Error('nothing was read');
  return found;
}

function problems(
  annotations: Readonly<Record<string, string>>,
  permitted: readonly ServiceAnnotation[] = SERVICE_ANNOTATIONS,
): string[] {
  return read(annotations, permitted).asked.flatMap(({ problem }) => problem?.reason ?? []);
}

test.each<[ServiceAnnotation, string, ServiceRequests]>([
  ['scheduler', 'wrr', { scheduler: 'wrr' }],
  ['scheduler', 'twos', { scheduler: 'twos' }],
  ['scheduler-flags', 'sh-port', { schedulerFlags: { scheduler: 'sh', fallback: false, port: true } }],
  ['scheduler-flags', 'mh-fallback,mh-port', { schedulerFlags: { scheduler: 'mh', fallback: true, port: true } }],
  ['scheduler-flags', 'none', { schedulerFlags: { fallback: false, port: false } }],
  ['weights', 'zone=a:3', { weights: [{ zone: 'a', weight: 3 }] }],
  [
    'weights',
    'node=local:10,node=other:0',
    {
      weights: [
        { local: true, weight: 10 },
        { local: false, weight: 0 },
      ],
    },
  ],
  ['weights', 'zone=eu-west-1a:256', { weights: [{ zone: 'eu-west-1a', weight: 256 }] }],
  ['connection-limit', '1000', { connectionLimit: { upper: 1_000, lower: 0 } }],
  ['connection-limit', '4294967295', { connectionLimit: { upper: 4_294_967_295, lower: 0 } }],
  ['connection-limit', '1000/800', { connectionLimit: { upper: 1_000, lower: 800 } }],
  ['drain-timeout', '1m30s', { drainTimeout: 90_000 }],
  ['drain-timeout', '0s', { drainTimeout: 0 }],
  ['session-affinity-mask', '/24', { affinityPrefix: { 4: 24 } }],
  ['session-affinity-mask', '/64', { affinityPrefix: { 6: 64 } }],
  ['session-affinity-mask', '/24,/64', { affinityPrefix: { 4: 24, 6: 64 } }],
  ['session-affinity-mask', '/32,/32', { affinityPrefix: { 4: 32, 6: 32 } }],
  ['session-affinity-mask', '/33', { affinityPrefix: { 6: 33 } }],
  ['one-packet', 'true', { onePacket: true }],
  ['one-packet', 'false', {}],
  ['endpoint-check', 'true', { endpointCheck: true }],
  ['endpoint-check', 'false', {}],
  ['forwarding', 'tunnel', { forwarding: 'tunnel' }],
  ['forwarding', 'tunnel-gre', { forwarding: 'tunnel', encapsulation: { type: 'gre' } }],
  ['forwarding', 'tunnel-gue', { forwarding: 'tunnel', encapsulation: { type: 'gue', port: toPort(6080)! } }],
  ['forwarding', 'tunnel-gue:5555', { forwarding: 'tunnel', encapsulation: { type: 'gue', port: toPort(5555)! } }],
  ['forwarding', 'route', { forwarding: 'route' }],
  ['forwarding', 'nat', {}],
])('%s: %s', (name, value, requests) => {
  expect(read({ [name]: value })).toEqual({ requests, asked: [{ name, value }] });
});

test.each<[ServiceAnnotation, readonly string[]]>([
  [
    'scheduler',
    [
      '',
      'no-such',
      'RR',
      'rr ',
      ' rr',
      'rr\n',
      '../rr',
      'ip_vs_rr',
      'constructor',
      '__proto__',
      'rr\u0000',
      'rr;ls',
      'ｒｒ',
    ],
  ],
  ['scheduler-flags', ['', 'sh', 'sh-fallback,mh-port', 'rr-port', 'none,sh-port', 'sh-fallback,', 'flag-1']],
  [
    'weights',
    [
      '',
      'zone=a',
      'zone=a:1,zone=b:2,zone=a:3',
      'node=local:1,node=local:1',
      'zone=a:-1',
      'zone=a:257',
      'zone=a:65536',
      'zone=:1',
      'node=here:1',
      'rack=a:1',
      'zone=a:1.5',
      'zone=a:1,',
    ],
  ],
  [
    'connection-limit',
    ['', '0', '0/0', '-1', '10/10', '10/20', '10/', '10/0', '/10', '4294967296', '99999999999', '1e3', 'ten'],
  ],
  ['drain-timeout', ['', '5', '-1s', 'soon', '9999999h', `${'9'.repeat(60)}s`, '1s 2s', 's', 'NaN']],
  [
    'session-affinity-mask',
    ['', '24', '/0', '/0,/64', '/24,/0', '/129', '/33,/64', '/24,/129', '/24,/64,/1', '255.255.255.0', '/64,/24'],
  ],
  ['one-packet', ['', 'yes', 'True', '1']],
  [
    'forwarding',
    ['', 'ipip', 'tunnel-', 'tunnel-gue:', 'tunnel-gue:0', 'tunnel-gue:65536', 'tunnel-gre:1', 'tunnel:1'],
  ],
])('%s: bad values are ignored, each with a reason that shows a good one', (name, values) => {
  for (const value of values) {
    const { requests, asked } = read({ [name]: value });
    expect([value, requests]).toEqual([value, {}]);
    const [{ problem } = {}] = asked;
    expect(problem?.reason).toBe('invalid-annotation');
    expect(problem?.message).toMatch(
      new RegExp(`^annotation kube-ipvs-proxy/${name}: ".*" is ignored: want (one|flags|weights|a|true|nat)`),
    );
  }
});

/** An entry of the operator's configuration, of which only the annotations and `override` matter here. */
function defaultsOf(
  index: number,
  annotations: Partial<Record<ServiceAnnotation, string>>,
  override = false,
): ServiceDefaults {
  const list = (Object.entries(annotations) as [ServiceAnnotation, string][]).map(([name, value]) => {
    const requests = readAnnotationValue(name, value);
    if (typeof requests === 'string') throw new Error(`want ${requests}`);
    return { name, value, requests };
  });
  return { path: `serviceDefaults[${index}]`, selector: { terms: [] }, annotations: list, override };
}

describe("the operator's defaults", () => {
  test('they are in force where the Service has no annotation, whatever tenants may use', () => {
    const defaults = [defaultsOf(0, { scheduler: 'wrr', 'connection-limit': '100' })];
    expect(read({ 'drain-timeout': '5s' }, ['drain-timeout'], defaults)).toEqual({
      requests: { drainTimeout: 5_000, scheduler: 'wrr', connectionLimit: { upper: 100, lower: 0 } },
      asked: [
        { name: 'drain-timeout', value: '5s' },
        { name: 'scheduler', value: 'wrr', from: 'serviceDefaults[0]' },
        { name: 'connection-limit', value: '100', from: 'serviceDefaults[0]' },
      ],
    });
  });

  test('of each annotation, the first entry that has it counts', () => {
    const defaults = [
      defaultsOf(0, { 'drain-timeout': '1s' }),
      defaultsOf(1, { scheduler: 'wrr', 'drain-timeout': '2s' }),
      defaultsOf(2, { scheduler: 'lc' }, true),
    ];
    expect(read({}, [], defaults).requests).toEqual({ scheduler: 'wrr', drainTimeout: 1_000 });
    // The third entry does not count, and neither does its override.
    expect(read({ scheduler: 'sh' }, ['scheduler'], defaults).requests).toMatchObject({ scheduler: 'sh' });
  });

  test('a valid and permitted annotation is stronger, also one that asks for nothing', () => {
    const defaults = [defaultsOf(0, { scheduler: 'wrr', 'one-packet': 'true' })];
    expect(read({ scheduler: 'sh', 'one-packet': 'false' }, SERVICE_ANNOTATIONS, defaults)).toEqual({
      requests: { scheduler: 'sh' },
      asked: [
        { name: 'scheduler', value: 'sh' },
        { name: 'one-packet', value: 'false' },
      ],
    });
  });

  test.each([
    ['no-such', SERVICE_ANNOTATIONS, 'invalid-annotation'],
    ['sh', [], 'annotation-not-permitted'],
  ])('an annotation that is ignored leaves them in force: %s', (value, permitted, reason) => {
    const { requests, asked } = read({ scheduler: value }, permitted, [defaultsOf(0, { scheduler: 'wrr' })]);
    expect(requests).toEqual({ scheduler: 'wrr' });
    expect(asked).toMatchObject([
      { name: 'scheduler', value, problem: { reason } },
      { name: 'scheduler', value: 'wrr', from: 'serviceDefaults[0]' },
    ]);
  });

  test('with override they are stronger, and the annotation has a warning unless it asks for the same', () => {
    const defaults = [defaultsOf(3, { scheduler: 'wrr', 'one-packet': 'false' }, true)];
    const { requests, asked } = read({ scheduler: 'sh', 'one-packet': 'true' }, SERVICE_ANNOTATIONS, defaults);
    expect(requests).toEqual({ scheduler: 'wrr' });
    expect(asked.map(({ name, value, from }) => [name, value, from])).toEqual([
      ['scheduler', 'sh', undefined],
      ['one-packet', 'true', undefined],
      ['scheduler', 'wrr', 'serviceDefaults[3]'],
      ['one-packet', 'false', 'serviceDefaults[3]'],
    ]);
    expect(asked[0]?.problem).toEqual({
      reason: 'annotation-overridden',
      message:
        'annotation kube-ipvs-proxy/scheduler: "sh" is ignored: the operator has set "wrr" (serviceDefaults[3], with override)',
    });
    const same = read({ scheduler: 'wrr' }, SERVICE_ANNOTATIONS, [defaultsOf(0, { scheduler: 'wrr' }, true)]);
    expect(same).toEqual({ requests: { scheduler: 'wrr' }, asked: [{ name: 'scheduler', value: 'wrr' }] });
  });
});

describe('annotations as a whole', () => {
  test('a Service without annotations of ours costs nothing', () => {
    expect(readAnnotations({}, new Set())).toBeUndefined();
  });

  test('a bad one does not affect the others', () => {
    const { requests } = read({ scheduler: 'no-such', 'drain-timeout': '5s', weights: 'zone=a:2' });
    expect(requests).toEqual({ drainTimeout: 5_000, weights: [{ zone: 'a', weight: 2 }] });
  });

  test('an unknown one, and one that is not permitted, have reasons of their own', () => {
    expect(problems({ shceduler: 'rr' })).toEqual(['unknown-annotation']);
    expect(problems({ __proto__x: 'rr' })).toEqual(['unknown-annotation']);
    expect(problems({ scheduler: 'rr' }, [])).toEqual(['annotation-not-permitted']);
    expect(read({ scheduler: 'rr' }, []).requests).toEqual({});
  });

  test('unprintable characters of names and values are escaped in messages, and kept in what explain lists', () => {
    const hostile = 'a\u001b[2J\u009b1m\u202ez\nb';
    const messages = (annotations: Readonly<Record<string, string>>): string =>
      read(annotations)
        .asked.map(({ problem }) => problem?.message ?? '')
        .join();
    const escaped = String.raw`"a\u001b[2J\u009b1m\u202ez\nb"`;
    expect(messages({ scheduler: hostile })).toContain(`kube-ipvs-proxy/scheduler: ${escaped} is ignored`);
    expect(messages({ [hostile]: 'rr' })).toContain(escaped.replace('"a', '"kube-ipvs-proxy/a'));
    expect(read({ scheduler: hostile }).asked).toMatchObject([{ value: hostile }]);
  });

  test('a value of 100,000 characters is not read, and not kept', () => {
    const { requests, asked } = read({ weights: `zone=a:1${',zone=a:1'.repeat(12_500)}` });
    expect(requests).toEqual({});
    expect(asked[0]?.value).toHaveLength(80);
    expect(asked[0]?.problem?.message.length).toBeLessThan(300);
  });
});
