import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from '@jest/globals';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';
import type { Port } from '../../../../src/base/port.ts';
import { namespacedName } from '../../../../src/base/service/names.ts';
import { LocalNodePortClaims, LocalNodePorts } from '../../../../src/daemon/run/local-node-ports.ts';
import type { PlannedLocalNodePort } from '../../../../src/plan/service-plan.ts';
import { DEFAULT_LIMITS } from '../../../../src/userspace/engine-limits.ts';
import { QuietLog } from '../../../contract/quiet-log.ts';

const LOCAL = parseIp('127.0.0.1') as IpAddress;
const [A, B] = [namespacedName('default', 'a'), namespacedName('default', 'b')];

function planned(port: number, more: Partial<PlannedLocalNodePort> = {}): PlannedLocalNodePort {
  const realServers = [{ address: parseIp('10.0.0.1') as IpAddress, port: 8080 as Port, weight: 1 }];
  const id = { address: LOCAL, port: port as Port, protocol: 'TCP' } as const;
  return { ...id, portName: 'http', realServers, scheduler: 'rr', affinitySeconds: 0, ...more };
}

test('a Service opens its ports, and closes those that it no longer has', () => {
  const claims = new LocalNodePortClaims();
  expect(claims.change(new Map([[A, [planned(30_001), planned(30_002)]]]))).toMatchObject({
    whole: false,
    ports: [{ key: 'TCP 127.0.0.1:30001', service: A, choice: 'rr' }, { key: 'TCP 127.0.0.1:30002' }],
    listeners: [{ port: 30_001, key: 'TCP 127.0.0.1:30001' }, { port: 30_002 }],
    endedPorts: [],
  });
  expect(claims.change(new Map([[A, [planned(30_002)]]]))).toMatchObject({
    ports: [{ key: 'TCP 127.0.0.1:30002' }],
    endedPorts: ['TCP 127.0.0.1:30001'],
    endedListeners: [{ address: LOCAL, port: 30_001, protocol: 'TCP' }],
  });
});

test('of two Services that claim a port, the first by name has it, then the other', () => {
  const claims = new LocalNodePortClaims();
  const ownerOf = (update: ReturnType<LocalNodePortClaims['change']>): unknown => update.ports?.[0]?.service;
  expect(ownerOf(claims.change(new Map([[B, [planned(30_001)]]])))).toBe(B);
  expect(ownerOf(claims.change(new Map([[A, [planned(30_001)]]])))).toBe(A);
  expect(claims.servicePort(planned(30_001))).toBe('default/a:http');
  expect(ownerOf(claims.change(new Map([[A, []]])))).toBe(B);
});

test.each([
  ['wlc', [1, 1], 'wlc'],
  ['random', [1, 3], 'wrr'],
  ['random', [1, 1], 'rr'],
] as const)('scheduler %s with weights %j is %s', (scheduler, weights, choice) => {
  const realServers = weights.map((weight, at) => ({
    address: parseIp(`10.0.0.${at}`) as IpAddress,
    port: 1 as Port,
    weight,
  }));
  const update = new LocalNodePortClaims().change(new Map([[A, [planned(30_001, { realServers, scheduler })]]]));
  expect(update.ports?.[0]?.choice).toBe(choice);
});

test('nothing is loaded before a node port is wanted', async () => {
  const ports = new LocalNodePorts({ limits: DEFAULT_LIMITS, log: {} as never, onRefused: () => undefined });
  await ports.publish(new Map());
  await ports.publish(new Map([[A, []]]));
  expect(await ports.report()).toBeUndefined();
});

test('when another program has the port, it is told of which Service the port is', async () => {
  const other = createServer();
  await once(other.listen(0, '127.0.0.1'), 'listening');
  const { port } = other.address() as AddressInfo;
  const told = Promise.withResolvers<readonly unknown[]>();
  const ports = new LocalNodePorts({
    limits: DEFAULT_LIMITS,
    log: new QuietLog(),
    onRefused: ({ code }, service, text) => told.resolve([code, service, text]),
  });
  await ports.publish(new Map([[A, [{ ...planned(30_001), port: port as Port }]]]));
  const text = `the node port TCP 127.0.0.1:${port} of default/a:http is not served: `;
  expect(await told.promise).toEqual(['EADDRINUSE', A, expect.stringContaining(text)]);
  await ports.close();
  other.close();
});
