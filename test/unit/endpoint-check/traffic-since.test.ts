import { expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { TrafficSince } from '../../../src/endpoint-check/traffic-since.ts';
import { realServerKey } from '../../../src/state/real-server.ts';
import type { RealServerStats } from '../../../src/state/server-stats.ts';
import { type VirtualServerId, virtualServerKey } from '../../../src/state/virtual-server.ts';
import { address, portOf, vsId } from '../../support/state.ts';

const WEB = namespacedName('shop', 'web');
const SERVER = { address: address('10.1.0.1'), port: portOf(8080) };
const KEY = realServerKey(SERVER);

function counters(connections: number, incomingPackets: number, outgoingPackets: number) {
  return { connections, incomingPackets, outgoingPackets, incomingBytes: 0, outgoingBytes: 0 };
}

function server(...counts: readonly [number, number, number]): RealServerStats {
  return { ...SERVER, ...counters(...counts), activeConnections: 0, inactiveConnections: 0 };
}

/** A look at virtual servers of one Service that all have these counters, and one real server. */
function look(since: TrafficSince, ids: readonly VirtualServerId[], ...counts: readonly [number, number, number]) {
  const stats = new Map(ids.map((id) => [virtualServerKey(id), counters(...counts)]));
  since.follow(new Map([[WEB, ids]]));
  const begun = since.begin(stats);
  const read = new Map(begun.ids.map((id) => [virtualServerKey(id), [server(...counts)]]));
  return { read: begun.ids.length, grew: begun.grew, traffic: since.end(begun, read).traffic.get(WEB)?.get(KEY) };
}

test('traffic is the growth since the last look, over all virtual servers; before the first look, it is unknown', () => {
  const since = new TrafficSince();
  const ids = [vsId('10.96.0.1', 80), vsId('192.168.0.1', 30_080)];
  expect(look(since, ids, 5, 20, 18)).toMatchObject({ read: 2, traffic: 'unknown' });
  expect(look(since, ids, 6, 24, 22)).toMatchObject({
    grew: true,
    traffic: { connections: 2, incomingPackets: 8, outgoingPackets: 8 },
  });
});

test('a virtual server without packets is read once more, because the kernel may sum up its real servers later, and then not', () => {
  const since = new TrafficSince();
  const ids = [vsId('10.96.0.1', 80)];
  const reads = [1, 1, 1, 2, 2, 2].map((packets) => look(since, ids, 1, packets, packets).read);
  expect(reads).toEqual([1, 1, 0, 1, 1, 0]);
});

test('after another program has reset the counters, the traffic is unknown once, and then their growth', () => {
  const since = new TrafficSince();
  const ids = [vsId('10.96.0.1', 80)];
  look(since, ids, 5, 20, 18);
  expect(look(since, ids, 1, 2, 0).traffic).toBe('unknown');
  expect(look(since, ids, 2, 4, 0).traffic).toMatchObject({ connections: 1, incomingPackets: 2, outgoingPackets: 0 });
});

test('the traffic of a real server that is removed and added again is unknown', () => {
  const since = new TrafficSince();
  const ids = [vsId('10.96.0.1', 80)];
  const [id] = ids as [VirtualServerId];
  look(since, ids, 5, 20, 18);
  const begun = since.begin(new Map([[virtualServerKey(id), counters(5, 24, 18)]]));
  expect(
    since
      .end(begun, new Map([[virtualServerKey(id), []]]))
      .traffic.get(WEB)
      ?.get(KEY),
  ).toBe('unknown');
  expect(look(since, ids, 5, 28, 26).traffic).toBe('unknown');
  // Its virtual server is gone when it is to be read.
  const next = since.begin(new Map([[virtualServerKey(id), counters(5, 30, 26)]]));
  expect(since.end(next, new Map()).traffic.get(WEB)?.get(KEY)).toBe('unknown');
});

test('the traffic through a virtual server that is gone is unknown once, and when it comes again', () => {
  const since = new TrafficSince();
  const ids = [vsId('10.96.0.1', 80)];
  const gone = () => since.end(since.begin(new Map()), new Map()).traffic.get(WEB)?.get(KEY);
  look(since, ids, 5, 20, 18);
  expect([gone(), gone()]).toEqual(['unknown', undefined]);
  expect(look(since, ids, 6, 24, 22).traffic).toBe('unknown');
});

test('a look reads 2,000 virtual servers at most; the Services that were left out come first the next time', () => {
  const since = new TrafficSince();
  const services = new Map(
    Array.from({ length: 3_000 }, (_, at) => [
      namespacedName('many', `s${at}`),
      [vsId(`10.96.${at >> 8}.${at & 255}`, 80)],
    ]),
  );
  const stats = (packets: number) =>
    new Map([...services.values()].flat().map((id) => [virtualServerKey(id), counters(1, packets, 0)]));
  since.follow(services);
  const first = since.begin(stats(1));
  expect(first.ids).toHaveLength(2_000);
  expect([...first.leftOut]).toEqual([...services.keys()].slice(2_000));
  const second = since.begin(stats(2));
  expect(second.services.slice(0, 1_000)).toEqual([...services.keys()].slice(2_000));
  expect(second.services.filter((name) => first.services.includes(name))).toHaveLength(1_000);
});

test('a namespace with many Services does not delay the reads of others', () => {
  const since = new TrafficSince();
  const names = Array.from({ length: 6_000 }, (_, at) => namespacedName('many', `s${at}`));
  const services = new Map(
    [...names, WEB].map((name, at) => [name, [vsId(`10.96.${at >> 8}.${at & 255}`, 80)]] as const),
  );
  const ids = [...services.values()].flat();
  since.follow(services);
  for (let packets = 1; packets < 4; packets++) {
    const stats = new Map(ids.map((id) => [virtualServerKey(id), counters(1, packets, 0)]));
    const { services: looked } = since.begin(stats);
    expect([looked.length, looked.includes(WEB)]).toEqual([2_000, true]);
  }
});
