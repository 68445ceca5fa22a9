import { describe, expect, test } from '@jest/globals';
import { SERVICE_ANNOTATIONS, type ServiceAnnotation } from '../../../src/base/service-annotations.ts';
import { type ReadAnnotations, readAnnotations } from '../../../src/model/service-annotations.ts';
import type { ServiceRequests } from '../../../src/model/service-requests.ts';

function read(
  annotations: Readonly<Record<string, string>>,
  permitted: readonly ServiceAnnotation[] = SERVICE_ANNOTATIONS,
): ReadAnnotations {
  const list = Object.entries(annotations).map(([name, value]) => ({ name, value }));
  const found = readAnnotations({ annotations: list }, new Set<ServiceAnnotation>(permitted));
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
  ['weights', 'zone=eu-west-1a:65535', { weights: [{ zone: 'eu-west-1a', weight: 65_535 }] }],
  ['connection-limit', '1000', { connectionLimit: { upper: 1_000, lower: 0 } }],
  ['connection-limit', '1000/800', { connectionLimit: { upper: 1_000, lower: 800 } }],
  ['drain-timeout', '1m30s', { drainTimeout: 90_000 }],
  ['drain-timeout', '0s', { drainTimeout: 0 }],
  ['session-affinity-mask', '/24', { affinityPrefix: { 4: 24 } }],
  ['session-affinity-mask', '/64', { affinityPrefix: { 6: 64 } }],
  ['session-affinity-mask', '/24,/64', { affinityPrefix: { 4: 24, 6: 64 } }],
  ['one-packet', 'true', { onePacket: true }],
  ['one-packet', 'false', {}],
  ['forwarding', 'tunnel', { forwarding: 'tunnel' }],
  ['forwarding', 'route', { forwarding: 'route' }],
  ['forwarding', 'nat', {}],
])('%s: %s', (name, value, requests) => {
  expect(read({ [name]: value })).toEqual({ requests, asked: [{ name, value }] });
});

test.each<[ServiceAnnotation, readonly string[]]>([
  ['scheduler', ['', 'no-such', 'RR', 'rr ', '../rr', 'ip_vs_rr', 'constructor']],
  ['scheduler-flags', ['', 'sh', 'sh-fallback,mh-port', 'rr-port', 'none,sh-port', 'sh-fallback,', 'flag-1']],
  [
    'weights',
    ['', 'zone=a', 'zone=a:-1', 'zone=a:65536', 'zone=:1', 'node=here:1', 'rack=a:1', 'zone=a:1.5', 'zone=a:1,'],
  ],
  ['connection-limit', ['', '0', '-1', '10/10', '10/20', '10/', '10/0', '4294967296', '1e3', 'ten']],
  ['drain-timeout', ['', '5', '-1s', 'soon']],
  ['session-affinity-mask', ['', '24', '/0', '/129', '/33,/64', '/24,/129', '/24,/64,/1', '255.255.255.0', '/64,/24']],
  ['one-packet', ['', 'yes', 'True', '1']],
])('%s: bad values are ignored, each with a reason that shows a good one', (name, values) => {
  for (const value of values) {
    const { requests, asked } = read({ [name]: value });
    expect([value, requests]).toEqual([value, {}]);
    const [{ problem } = {}] = asked;
    expect(problem?.reason).toBe('invalid-annotation');
    expect(problem?.message).toMatch(
      new RegExp(`^annotation kube-ipvs-proxy/${name}: ".*" is ignored: want (one|flags|weights|a|true)`),
    );
  }
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

  test('a value of 100,000 characters is not read, and not kept', () => {
    const { requests, asked } = read({ weights: `zone=a:1${',zone=a:1'.repeat(12_500)}` });
    expect(requests).toEqual({});
    expect(asked[0]?.value).toHaveLength(1_000);
    expect(asked[0]?.problem?.message.length).toBeLessThan(300);
  });
});
