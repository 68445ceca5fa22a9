import { describe, expect, test } from '@jest/globals';
import { type Cidr, cidrOf, formatCidr } from '../../src/base/cidr.ts';
import type { IpFamily } from '../../src/base/ip.ts';
import type { Op } from '../../src/state/op.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { boundAddresses } from '../support/bound-addresses.ts';
import type { ContractBed } from './contract-bed.ts';
import { address } from './objects.ts';

export function routeContract(family: IpFamily, bed: () => ContractBed): void {
  const network = (n: number): Cidr => cidrOf(address(family, n * 256), family === 4 ? 24 : 120);
  const add = (n: number): Op => ({ kind: 'add-route', cidr: network(n) });
  const remove = (n: number): Op => ({ kind: 'delete-route', cidr: network(n) });
  const apply = async (...ops: readonly Op[]) => bed().kernel.apply(new Transaction(ops));
  const text = (n: number, protocol: number): string => `${formatCidr(network(n))} ${protocol}`;
  const clean = { failures: [] };

  describe('local routes', () => {
    test('are added and taken away; repeating either counts as done', async () => {
      expect(await apply(add(1), add(2))).toEqual({ failures: [] });
      expect(await apply(add(1), add(2))).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([text(1, 120), text(2, 120)]);
      const found = await bed().kernel.getLocalRoutes();
      expect(found).toHaveLength(2);
      expect(found).toContainEqual({ cidr: network(1), ours: true });
      expect(await apply(remove(1), remove(3))).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([text(2, 120)]);
    });

    test('are not those that stand for an address', async () => {
      const bound = address(family, 2 * 256 + 7);
      expect(await apply(add(2), { kind: 'bind-address', address: bound })).toMatchObject(clean);
      expect(await bed().kernel.getLocalRoutes()).toEqual([{ cidr: network(2), ours: true }]);
      expect(await apply(remove(2))).toMatchObject(clean);
      expect(await boundAddresses(bed().kernel)).toEqual([bound]);
    });

    test('of others are seen, and not deleted', async () => {
      await bed().addRoute(network(1));
      expect(await bed().kernel.getLocalRoutes()).toEqual([{ cidr: network(1), ours: false }]);
      expect(await apply(remove(1))).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([text(1, 4)]);
    });

    test('with a source are other routes than those without', async () => {
      const source = address(family, 3 * 256 + 1);
      await bed().addNodeAddress({
        address: source,
        prefix: family === 4 ? 24 : 120,
        interfaceName: 'eth7',
        tentative: false,
      });
      const bound = address(family, 9 * 256 + 7);
      const host = cidrOf(bound, family === 4 ? 32 : 128);
      expect(await apply({ kind: 'bind-address', address: bound })).toMatchObject(clean);
      expect(await apply(add(1), { ...add(1), source } as Op, { kind: 'add-route', cidr: host, source })).toMatchObject(
        clean,
      );
      expect(await apply({ ...add(1), source } as Op)).toMatchObject(clean);
      const withSource = [
        { cidr: network(1), ours: true, source },
        { cidr: host, ours: true, source },
      ];
      const found = await bed().kernel.getLocalRoutes();
      expect(found).toHaveLength(3);
      expect(found).toEqual(expect.arrayContaining([{ cidr: network(1), ours: true }, ...withSource]));
      expect(await apply(remove(1))).toMatchObject(clean);
      expect(new Set(await bed().kernel.getLocalRoutes())).toEqual(new Set(withSource));
      expect(await apply({ kind: 'unbind-address', address: bound })).toMatchObject(clean);
      expect((await bed().kernel.findRoutes([bound])).get(bound)).toMatchObject({ local: true, source });
      const removals = withSource.map(({ cidr }): Op => ({ kind: 'delete-route', cidr, source }));
      expect(await apply(...removals)).toMatchObject(clean);
      expect(await bed().kernel.getLocalRoutes()).toEqual([]);
    });

    test('tell which addresses are local, on a link, and nowhere', async () => {
      const own = address(family, 3 * 256 + 1);
      const [bound, routed] = [address(family, 9 * 256 + 7), address(family, 5 * 256 + 9)];
      const [neighbour, nowhere] = [address(family, 3 * 256 + 2), address(family, 8 * 256 + 1)];
      const prefix = family === 4 ? 24 : 120;
      await bed().addNodeAddress({ address: own, prefix, interfaceName: 'eth7', tentative: false });
      await apply(add(5), { kind: 'bind-address', address: bound });
      const routes = await bed().kernel.findRoutes([own, bound, routed, neighbour, nowhere]);
      const local = { local: true, interfaceName: 'lo', gateway: false };
      expect(routes.get(own)).toEqual({ ...local, source: own });
      expect(routes.get(bound)).toEqual({ ...local, source: bound });
      expect(routes.get(routed)).toMatchObject(local);
      expect(routes.get(neighbour)).toEqual({ local: false, interfaceName: 'eth7', gateway: false, source: own });
      expect(routes.has(nowhere)).toBe(false);
    });

    test('need no kube-ipvs0, and outlive the last address on it', async () => {
      const bound = address(family, 7);
      await apply(add(1), { kind: 'bind-address', address: bound });
      expect(await apply({ kind: 'unbind-address', address: bound })).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([text(1, 120)]);
      await bed().kernel.removeDevice();
      expect(await apply(add(1), add(2))).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([text(1, 120), text(2, 120)]);
      expect(await apply(remove(1), remove(2))).toMatchObject(clean);
      expect(await bed().routes(family)).toEqual([]);
    });
  });
}
