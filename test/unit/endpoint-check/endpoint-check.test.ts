import { expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { EndpointCheck } from '../../../src/endpoint-check/endpoint-check.ts';
import { LookTiming } from '../../../src/endpoint-check/look-timing.ts';
import { NOTHING } from '../../../src/endpoint-check/traffic-since.ts';
import type { RealServerKey } from '../../../src/state/real-server.ts';
import { realServerKey } from '../../../src/state/real-server.ts';
import { address, portOf } from '../../support/state.ts';

const WEB = namespacedName('shop', 'web');
const UNANSWERED = { connections: 2, incomingPackets: 4, outgoingPackets: 0, incomingBytes: 240, outgoingBytes: 0 };

function keys(count: number): RealServerKey[] {
  return Array.from({ length: count }, (_, at) =>
    realServerKey({ address: address(`10.0.${at >> 8}.${at & 255}`), port: portOf(80) }),
  );
}

test('a hundred endpoints are asked in a second at most, and those of a Service with many suspects do not hold up others', () => {
  const check = new EndpointCheck();
  const others = Array.from({ length: 10 }, (_, at) => namespacedName('other', `s${at}`));
  check.setEndpoints(WEB, new Set(keys(500)), 0);
  for (const other of others) check.setEndpoints(other, new Set(keys(1)), 0);
  const of = (count: number) => new Map(keys(count).map((key) => [key, UNANSWERED]));
  const traffic = new Map([[WEB, of(500)], ...others.map((other) => [other, of(1)] as const)]);
  check.looked({ ...NOTHING, traffic }, 0, 0);
  const first = check.takeDue(0);
  expect(first).toHaveLength(100);
  expect(others.filter((other) => !first.some(({ service }) => service === other))).toEqual([]);
  expect(check.takeDue(999)).toEqual([]);
  expect(check.dueAt(500)).toBe(1_000);
  expect(check.takeDue(1_000)).toHaveLength(100);
});

test('a namespace with many Services that are due does not hold up others', () => {
  const check = new EndpointCheck();
  const many = Array.from({ length: 6_000 }, (_, at) => namespacedName('many', `s${at}`));
  const one = new Set(keys(1));
  for (const service of many) check.setEndpoints(service, one, 0, () => true);
  for (let now = 0; now < 5_000; now += 1_000) {
    for (const question of check.takeDue(now)) check.connected(question, 'unanswered', now + 500);
  }
  check.setEndpoints(WEB, one, 5_000, () => true);
  const taken = check.takeDue(5_000);
  expect(taken).toHaveLength(100);
  expect(taken.some(({ service }) => service === WEB)).toBe(true);
  // Those that were asked come after those that were not.
  const asked = new Set(taken.map(({ service }) => service));
  expect(check.takeDue(6_000).filter(({ service }) => asked.has(service))).toEqual([]);
});

test('a connect that is due goes to no endpoint that was removed, and a change of others keeps it', () => {
  const check = new EndpointCheck();
  const [first, second, third] = keys(3) as [RealServerKey, RealServerKey, RealServerKey];
  check.setEndpoints(WEB, new Set([first, second]), 0, () => true);
  check.setEndpoints(WEB, new Set([second, third]), 1, () => true);
  expect(check.takeDue(1).map(({ key }) => key)).toEqual([second, third]);
  expect(check.dueAt(1)).toBe(Infinity);
});

test('a look that does not know the traffic of a suspect is no sign that nothing came back', () => {
  const check = new EndpointCheck();
  const [key] = keys(1) as [RealServerKey];
  const looked = (traffic: typeof UNANSWERED | 'unknown', at: number) =>
    check.looked({ ...NOTHING, traffic: new Map([[WEB, new Map([[key, traffic]])]]) }, at, at);
  const ask = (result: 'answered' | 'unanswered', at: number) => {
    for (const question of check.takeDue(at)) check.connected(question, result, at);
  };
  check.setEndpoints(WEB, new Set([key]), 0);
  looked(UNANSWERED, 0);
  ask('answered', 0);
  looked(UNANSWERED, 2_000);
  looked('unknown', 2_500);
  ask('unanswered', 4_000);
  looked(UNANSWERED, 4_400);
  expect(check.silentOf(WEB).size).toBe(0);
  looked(UNANSWERED, 4_500);
  expect(check.silentOf(WEB).size).toBe(1);
});

test('a suspect without traffic is judged by a look at which nothing has changed, but not by one that left out its Service', () => {
  const check = new EndpointCheck();
  const [key] = keys(1) as [RealServerKey];
  check.setEndpoints(WEB, new Set([key]), 0);
  const traffic = new Map([[WEB, new Map([[key, { ...UNANSWERED, incomingPackets: 2 }]])]]);
  check.looked({ ...NOTHING, traffic }, 0, 0);
  for (const question of check.takeDue(0)) check.connected(question, 'answered', 0);
  check.looked({ ...NOTHING, traffic }, 2_000, 2_000);
  for (const question of check.takeDue(2_000)) check.connected(question, 'unanswered', 3_000);
  expect(check.looked({ ...NOTHING, leftOut: new Set([WEB]) }, 4_000, 4_000)).toEqual([]);
  expect(check.looked(NOTHING, 4_500, 4_500)).toMatchObject([{ service: WEB, end: undefined }]);
});

test('an endpoint that was removed and added again is used, whatever an earlier connect says', () => {
  const check = new EndpointCheck();
  const [key] = keys(1) as [RealServerKey];
  check.setEndpoints(WEB, new Set([key]), 0, () => true);
  const [question] = check.takeDue(0);
  expect(check.silentOf(WEB)).toEqual(new Set([key]));
  check.setEndpoints(WEB, new Set(), 1);
  check.setEndpoints(WEB, new Set([key]), 2);
  expect(check.connected(question!, 'unanswered', 1_000)).toEqual([]);
  expect(check.counts()).toEqual({ unknown: 1, trusted: 0, suspected: 0, silent: 0 });
});

test('looks come soon after the kernel has summed up its counters, and seldom without traffic', () => {
  /** The times of the looks of a minute, of which those between two sums of the kernel find nothing new. */
  const looks = (hasTraffic: boolean): { readonly count: number; readonly lags: number[] } => {
    const timing = new LookTiming();
    let [now, sums, count] = [700, 0, 0];
    const lags: number[] = [];
    while (now < 60_000) {
      const grew = hasTraffic && Math.floor(now / 2_000) > sums;
      sums = Math.floor(now / 2_000);
      if (grew) lags.push(now % 2_000);
      count += 1;
      now += timing.next(grew);
    }
    return { count, lags };
  };
  const busy = looks(true);
  expect(Math.max(...busy.lags.slice(10))).toBeLessThan(400);
  expect(busy.count).toBeLessThan(62);
  expect(looks(false).count).toBe(30);

  // Each counter at another time.
  const timing = new LookTiming();
  const waits = Array.from({ length: 20 }, () => timing.next(true));
  expect(new Set(waits.slice(15))).toEqual(new Set([1_000]));
});
