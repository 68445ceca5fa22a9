import { describe, expect, test } from '@jest/globals';
import type { Endpoint, Service } from '../../../src/kube/objects/objects.ts';
import { HERE, endpoint, planOf, servers, slice } from './build.ts';

const ZONE = 'zone-a';
const hints = (zones: readonly string[], nodes: readonly string[] = []): Partial<Endpoint> => ({
  hintZones: zones,
  hintNodes: nodes,
});

function used(endpoints: readonly Endpoint[], zone = ZONE, service: Partial<Service> = {}): string[] {
  const plan = planOf({ service, slices: [slice(endpoints)], node: { zone } });
  return (servers(plan)[0] ?? '')
    .split(' ')
    .slice(3)
    .map((address) => address.replace(/^10\.244\.0\.|:8080$/g, ''));
}

const e = (last: number, fields: Partial<Endpoint>): Endpoint => endpoint(`10.244.0.${last}`, fields);

describe('topology hints', () => {
  test.each([
    ['the zone of this node', [e(1, hints([ZONE])), e(2, hints(['zone-b']))], ['1']],
    ['several zones for one endpoint', [e(1, hints(['zone-b', ZONE])), e(2, hints(['zone-b']))], ['1']],
    ['one endpoint without a hint: all', [e(1, hints([ZONE])), e(2, {})], ['1', '2']],
    ['nobody for this zone: all', [e(1, hints(['zone-b'])), e(2, hints(['zone-c']))], ['1', '2']],
    ['this node before its zone', [e(1, hints([ZONE], ['node-b'])), e(2, hints([ZONE], [HERE]))], ['2']],
    ['nobody for this node: its zone', [e(1, hints([ZONE], ['node-b'])), e(2, hints(['zone-b'], ['node-c']))], ['1']],
    [
      'one endpoint without a node hint: the zone',
      [e(1, hints([ZONE], [HERE])), e(2, hints([ZONE])), e(3, hints(['zone-b'], ['node-b']))],
      ['1', '2'],
    ],
  ])('%s', (_name, endpoints, expected) => {
    expect(used(endpoints)).toEqual(expected);
  });

  test('topology hints of ready endpoints only are used', () => {
    expect(used([e(1, hints([ZONE])), e(2, hints(['zone-b'])), e(3, { ready: false })])).toEqual(['1']);
    expect(used([e(1, { ...hints([ZONE]), ready: false }), e(2, hints(['zone-b']))])).toEqual(['2']);
  });

  test('topology hints of zones are ignored while this node has no zone', () => {
    expect(used([e(1, hints([''])), e(2, hints(['zone-b']))], '')).toEqual(['1', '2']);
  });

  test('topology hints do not restrict terminating endpoints that are the last resort', () => {
    const draining = { ready: false, serving: true, terminating: true };
    expect(used([e(1, { ...hints([ZONE]), ...draining }), e(2, { ...hints(['zone-b']), ...draining })])).toEqual([
      '1',
      '2',
    ]);
  });

  test('topology hints do not restrict policy Local', () => {
    const here = [e(1, { ...hints(['zone-b']), nodeName: HERE }), e(2, { ...hints([ZONE]), nodeName: HERE })];
    expect(used(here, ZONE, { internalTrafficPolicy: 'Local' })).toEqual(['1', '2']);
  });

  test('topology hints are evaluated separately for each port and each family', () => {
    const plan = planOf({
      service: { clusterIPs: ['10.96.0.1', 'fd00::1'] },
      slices: [
        slice([e(1, hints([ZONE])), e(2, hints(['zone-b']))]),
        slice([endpoint('fd00:244::1'), endpoint('fd00:244::2', hints([ZONE]))], { name: 'six', addressType: 'IPv6' }),
      ],
      node: { zone: ZONE },
    });
    expect(servers(plan)).toEqual([
      'TCP 10.96.0.1:80 -> 10.244.0.1:8080',
      'TCP [fd00::1]:80 -> [fd00:244::1]:8080 [fd00:244::2]:8080',
    ]);
  });
});
