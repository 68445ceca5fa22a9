import { expect, test } from '@jest/globals';
import { toPort } from '../../../src/base/port.ts';
import { ClientAffinity } from '../../../src/userspace/client-affinity.ts';
import type { Backend } from '../../../src/userspace/engine-update.ts';
import { ServiceEndpoints, type Session, type UsedEndpoint } from '../../../src/userspace/service-endpoints.ts';
import { LOCAL, forwardedPort } from './engine-bed.ts';

const [FIRST, SECOND] = [8080, 8081].map((port): Backend => ({ address: LOCAL, port: toPort(port)!, weight: 1 }));
const SESSION: Session = { bytes: { in: 1, out: 2 }, endpointLeft: () => undefined, reset: () => undefined };

function endpointsOf(affinity = new ClientAffinity<UsedEndpoint>(), key = 'default/web'): ServiceEndpoints {
  const port = forwardedPort([FIRST!, SECOND!], { key, affinitySeconds: 60 });
  return new ServiceEndpoints(port, { affinity, isLoop: () => false });
}

/** A connection of a client, which ends at once. Returns the port of its endpoint. */
function connect(service: ServiceEndpoints, client: string): number | undefined {
  const endpoint = service.choose(client, () => true);
  if (endpoint !== undefined) service.connected(client, endpoint, SESSION);
  return endpoint?.backend.port;
}

test('a port is idle when its last session has ended, and says so once', () => {
  const service = endpointsOf();
  const counts: number[] = [];
  service.begin(SESSION);
  service.whenIdle(() => counts.push(service.counts.bytesIn));
  expect(counts).toEqual([]);
  service.end(SESSION, undefined);
  service.end(SESSION, undefined);
  expect(counts).toEqual([1]);
});

test('traffic is that of the port and of each endpoint, with the bytes of connections that go on', () => {
  const service = endpointsOf();
  const [open, ended] = [{ ...SESSION }, { ...SESSION }];
  const used = [open, ended].map((session) => {
    service.begin(session);
    const endpoint = service.choose(session === open ? 'a' : 'b', () => true)!;
    service.connected('a', endpoint, session);
    return endpoint;
  });
  service.end(ended, used[1]);
  const { counters, endpoints } = service.traffic;
  expect(counters).toMatchObject({ connections: 2, active: 1, bytesIn: 2, bytesOut: 4 });
  const wanted = { connections: 1, bytesIn: 1, bytesOut: 2 };
  expect(endpoints.find(({ port }) => port === used[0]?.backend.port)).toMatchObject({ ...wanted, active: 1 });
  expect(endpoints.find(({ port }) => port === used[1]?.backend.port)).toMatchObject({ ...wanted, active: 0 });
});

test('a client does not return to an endpoint that has left, nor to one that came in its place', () => {
  const service = endpointsOf();
  const port = connect(service, 'a');
  const other = service.port.endpoints.filter((each) => each.port !== port);
  expect(connect(service, 'a')).toBe(port);
  service.update({ ...service.port, endpoints: other });
  expect(service.choose('a', () => true)?.backend.port).toBe(other[0]?.port);
});

test.each([
  // The lower threshold, and at how many connections the endpoint is chosen again.
  [3, 2],
  [0, 2],
  [1, 0],
])('an endpoint with as many connections as its limit is left out until it has fewer than %i', (lower, again) => {
  const limited: Backend = { ...FIRST!, upperThreshold: 4, lowerThreshold: lower };
  const service = new ServiceEndpoints(forwardedPort([], { endpoints: [limited] }), {
    affinity: new ClientAffinity<UsedEndpoint>(),
    isLoop: () => false,
  });
  const endpoint = service.choose('a', () => true)!;
  const sessions = Array.from({ length: 4 }, (): Session => ({ ...SESSION }));
  for (const session of sessions) {
    expect(service.choose('a', () => true)).toBe(endpoint);
    endpoint.sessions.add(session);
  }
  for (const session of sessions) {
    expect(service.choose('a', () => true)).toBeUndefined();
    endpoint.sessions.delete(session);
    if (endpoint.sessions.size === again) break;
  }
  expect(service.choose('a', () => true)).toBe(endpoint);
});

test('all ports together remember a bounded number of clients', () => {
  const affinity = new ClientAffinity<UsedEndpoint>(2);
  const [web, dns] = [endpointsOf(affinity), endpointsOf(affinity, 'default/dns')];
  const port = connect(web, 'a');
  connect(dns, 'a');
  // It was used last, so that the other port's client is forgotten.
  expect(connect(web, 'a')).toBe(port);
  connect(dns, 'b');
  const remembered = [web, dns].flatMap(({ port: { key } }) =>
    ['a', 'b'].filter((client) => affinity.find(key, client, performance.now(), 60_000) !== undefined),
  );
  expect(remembered).toEqual(['a', 'b']);
});
