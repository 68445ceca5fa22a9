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
  service.end(SESSION);
  service.end(SESSION);
  expect(counts).toEqual([1]);
});

test('a client does not return to an endpoint that has left, nor to one that came in its place', () => {
  const service = endpointsOf();
  const port = connect(service, 'a');
  const other = service.port.endpoints.filter((each) => each.port !== port);
  expect(connect(service, 'a')).toBe(port);
  service.update({ ...service.port, endpoints: other });
  expect(service.choose('a', () => true)?.backend.port).toBe(other[0]?.port);
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
