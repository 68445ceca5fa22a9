import { describe, expect, test } from '@jest/globals';
import { assign, changeLine } from '../../cluster/load-balancer/assign.ts';
import { type Target, healthCheckPorts, routeCommands, routesOf } from '../../cluster/load-balancer/routes.ts';
import { FINALIZER, type Service } from '../../cluster/load-balancer/service.ts';

function service(
  spec: Partial<Service['spec']> = {},
  metadata: Partial<Service['metadata']> = {},
  ips: readonly string[] = [],
): Service {
  return {
    metadata: { name: 'web', namespace: 'shop', ...metadata },
    spec: { type: 'LoadBalancer', ipFamilies: ['IPv4'], ...spec },
    status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } },
  };
}
const RANGE = { IPv4: ['172.30.1.1', '172.30.1.2'], IPv6: ['fd00:31::1'] };
const held = { finalizers: [FINALIZER] };

describe('addresses of Services', () => {
  test('a new one gets the first free address of each of its families, and is held', () => {
    const services = [service({}, held, ['172.30.1.1']), service({ ipFamilies: ['IPv4', 'IPv6'] }, { name: 'new' })];
    expect(assign(services, RANGE)).toEqual([
      { service: services[1], finalizers: [FINALIZER], addresses: ['172.30.1.2', 'fd00:31::1'] },
    ]);
  });

  test('two new ones get different addresses', () => {
    const changes = assign([service(), service({}, { name: 'new' })], RANGE);
    expect(changes.map(({ addresses }) => addresses)).toEqual([['172.30.1.1'], ['172.30.1.2']]);
  });

  test('one that has an address keeps it, also if somebody else has written it', () => {
    expect(assign([service({}, held, ['203.0.113.1'])], RANGE)).toEqual([]);
  });

  test.each([
    ['one of another type', service({ type: 'ClusterIP' }, held, ['172.30.1.1'])],
    ['one that is being deleted', service({}, { ...held, deletionTimestamp: '2026-01-01T00:00:00Z' }, ['172.30.1.1'])],
  ])('%s loses its address and is released', (_, released) => {
    expect(assign([released], RANGE)).toEqual([{ service: released, finalizers: [], addresses: [] }]);
  });

  test.each([
    ['one of another type that never had one', service({ type: 'NodePort' })],
    ['one of another controller', service({ loadBalancerClass: 'example.com/other' })],
  ])('%s stays as it is', (_, other) => {
    expect(assign([other], RANGE)).toEqual([]);
  });

  test('finalizers of others stay', () => {
    const other = service({}, { finalizers: ['example.com/other'] });
    expect(assign([other], RANGE)[0]?.finalizers).toEqual(['example.com/other', FINALIZER]);
  });

  test('an empty range is an error', () => {
    expect(() => assign([service()], { IPv4: [] })).toThrow('no more addresses of IPv4');
  });

  test('the line of a change names the Service', () => {
    expect(changeLine({ service: service(), addresses: ['172.30.1.1'], finalizers: [FINALIZER] })).toBe(
      'shop/web: 172.30.1.1; held',
    );
    expect(changeLine({ service: service(), addresses: [], finalizers: [] })).toBe('shop/web: no addresses; released');
  });
});

describe('routes to the addresses', () => {
  const target = (address: string, ...ports: number[]): Target => ({
    addresses: [address],
    healthy: (port) => ports.includes(port),
  });
  const targets = [target('172.30.0.11'), target('172.30.0.12', 30_000)];
  const inRange = (address: string): boolean => address.startsWith('172.30.1.');

  test('lead to all nodes', () => {
    expect([...routesOf([service({}, held, ['172.30.1.1'])], inRange, targets)]).toEqual([
      ['172.30.1.1', ['172.30.0.11', '172.30.0.12']],
    ]);
  });

  test('with externalTrafficPolicy Local lead to healthy nodes only', () => {
    const local = service({ externalTrafficPolicy: 'Local', healthCheckNodePort: 30_000 }, held, ['172.30.1.1']);
    expect([...routesOf([local], inRange, targets)]).toEqual([['172.30.1.1', ['172.30.0.12']]]);
    expect([...routesOf([local], inRange, targets.slice(0, 1))]).toEqual([]);
    expect(healthCheckPorts([local, service()])).toEqual([30_000]);
  });

  test('with session affinity lead to one node', () => {
    const sticky = service({ sessionAffinity: 'ClientIP' }, held, ['172.30.1.1']);
    expect([...routesOf([sticky], inRange, targets)]).toEqual([['172.30.1.1', ['172.30.0.11']]]);
  });

  test('do not exist for addresses of others and for Services that lose theirs', () => {
    const services = [service({}, held, ['203.0.113.1']), service({ type: 'ClusterIP' }, held, ['172.30.1.1'])];
    expect([...routesOf(services, inRange, targets)]).toEqual([]);
  });

  test('change by the commands that are needed and no others', () => {
    const before = new Map([
      ['172.30.1.1', ['172.30.0.11']],
      ['172.30.1.2', ['172.30.0.11']],
      ['172.30.1.3', ['172.30.0.11']],
    ]);
    const after = new Map([
      ['172.30.1.2', ['172.30.0.11', '172.30.0.12']],
      ['172.30.1.3', ['172.30.0.11']],
    ]);
    expect(routeCommands(before, after)).toEqual([
      'route del 172.30.1.1',
      'route replace 172.30.1.2 src 198.51.100.1 nexthop via 172.30.0.11 nexthop via 172.30.0.12',
    ]);
  });
});
