import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { NodeAddress } from '../../src/kernel/kernel.ts';
import { type IpFamily, compareIp, formatIp } from '../../src/base/ip.ts';
import type { Op } from '../../src/state/op.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { boundAddresses } from '../support/bound-addresses.ts';
import type { ContractBed } from './contract-bed.ts';
import { address } from './objects.ts';

export function addressContract(family: IpFamily, bed: () => ContractBed): void {
  const host = family === 4 ? 32 : 128;
  const bind = (n: number): Op => ({ kind: 'bind-address', address: address(family, n) });
  const unbind = (n: number): Op => ({ kind: 'unbind-address', address: address(family, n) });
  const apply = async (...ops: readonly Op[]) => bed().kernel.apply(new Transaction(ops));
  const text = (n: number): string => `${formatIp(address(family, n))}/${host}`;
  const clean = { failures: [] };

  describe('addresses', () => {
    test('addresses are bound to kube-ipvs0 and unbound; repeating either succeeds', async () => {
      expect(await bed().addresses()).toEqual([]);
      expect(await apply(bind(1), bind(2), bind(3))).toEqual({ failures: [] });
      expect(await apply(bind(1), bind(2), bind(3))).toMatchObject(clean);
      expect(await bed().addresses()).toEqual([text(1), text(2), text(3)]);
      const bound = await boundAddresses(bed().kernel);
      expect(bound.sort(compareIp)).toEqual([1, 2, 3].map((n) => address(family, n)));
      expect(await apply(unbind(2))).toMatchObject(clean);
      expect(await apply(unbind(2), unbind(9))).toMatchObject(clean);
      expect(await bed().addresses()).toEqual([text(1), text(3)]);
    });

    test('a thousand addresses are bound in one batch', async () => {
      const ops = Array.from({ length: 1000 }, (_, n) => bind(n + 1));
      expect(await apply(...ops)).toEqual({ failures: [] });
      expect(await bed().kernel.getBoundAddresses()).toHaveLength(1000);
    });

    test('addresses cannot be bound without kube-ipvs0, which prepare creates again', async () => {
      await apply(bind(1));
      await bed().kernel.removeDevice();
      expect(await bed().addresses()).toBeUndefined();
      expect(await bed().kernel.getBoundAddresses()).toEqual([]);
      expect((await apply(bind(1))).failures.map(({ code }) => code)).toEqual(['ENODEV']);
      expect(await apply(unbind(1))).toMatchObject(clean);
      await bed().kernel.removeDevice();
      await bed().kernel.prepare();
      expect(await apply(bind(1))).toMatchObject(clean);
      expect(await bed().addresses()).toEqual([text(1)]);
    });

    test('addresses that another program bound with other flags are read, and changed by binding them again', async () => {
      const { kernel } = bed();
      await bed().bindAsOthers(address(family, 1));
      await apply(bind(2));
      const bound = async () => new Map((await kernel.getBoundAddresses()).map((each) => [each.address, each]));
      const one = { address: address(family, 1), prefix: host };
      const two = { address: address(family, 2), prefix: host, conforms: true };
      expect([...(await bound()).values()]).toEqual(expect.arrayContaining([{ ...one, conforms: false }, two]));
      expect(await apply(bind(1))).toMatchObject(clean);
      expect([...(await bound()).values()]).toEqual(expect.arrayContaining([{ ...one, conforms: true }, two]));
      expect(await bed().addresses()).toEqual([text(1), text(2)]);
    });

    test('an address whose local route another program deleted or replaced is read as such, and gets it by binding it again', async () => {
      const { kernel } = bed();
      await apply(bind(1), bind(2));
      const one = { address: address(family, 1), prefix: host, conforms: true };
      const two = { ...one, address: address(family, 2) };
      const bound = async () => (await kernel.getBoundAddresses()).toSorted((a, b) => compareIp(a.address, b.address));
      expect(await bound()).toEqual([one, two]);
      await bed().deleteRouteTo(address(family, 1));
      expect(await bound()).toEqual([{ ...one, unrouted: true }, two]);
      expect(await apply(bind(1))).toMatchObject(clean);
      expect(await bound()).toEqual([{ ...one, unrouted: true }, two]);
      expect(await apply({ kind: 'bind-address', address: address(family, 1), again: true })).toMatchObject(clean);
      expect(await bound()).toEqual([one, two]);
      await bed().blockRouteTo(address(family, 1));
      expect(await bound()).toEqual([{ ...one, unrouted: true }, two]);
      expect(await apply({ kind: 'bind-address', address: address(family, 1), again: true })).toMatchObject(clean);
      expect(await bound()).toEqual([one, two]);
      expect((await kernel.findRoutes([address(family, 1)])).get(address(family, 1))?.local).toBe(true);
      expect(await apply(unbind(1), unbind(2))).toMatchObject(clean);
      expect(await bound()).toEqual([]);
      expect((await kernel.findRoutes([address(family, 1)])).get(address(family, 1))?.local).not.toBe(true);
    });

    test('a deleted kube-ipvs0 loses its addresses; the watch reports it, and ensureDevice creates it again', async () => {
      const { kernel } = bed();
      const lost: string[] = [];
      const stop = kernel.watchNode(
        () => undefined,
        (reason) => lost.push(reason),
      );
      // The watch asks which interface it is.
      await kernel.getBoundAddresses();
      const { writes } = kernel.counters;
      expect(await kernel.ensureDevice()).toEqual({ made: false });
      expect(kernel.counters.writes).toBe(writes);
      await bed().deleteDevice();
      for (let wait = 0; wait < 100 && lost.length === 0; wait++) await setTimeout(20);
      expect(lost).toEqual(['kube-ipvs0 was deleted']);
      expect(await kernel.ensureDevice()).toEqual({ made: true });
      expect(kernel.counters.writes).toBe(writes + 1);
      expect(await kernel.ensureDevice()).toEqual({ made: false });
      expect(await bed().addresses()).toEqual([]);
      await setTimeout(50);
      expect(lost).toHaveLength(1);
      stop();
    });

    test('addresses of other interfaces are distinguished from those of kube-ipvs0', async () => {
      const own: NodeAddress = {
        address: address(family, 500),
        prefix: family === 4 ? 24 : 64,
        interfaceName: 'node0',
        tentative: false,
      };
      await apply(bind(1));
      await bed().addNodeAddress(own);
      const { kernel } = bed();
      expect(await kernel.getNodeAddresses()).toContainEqual(own);
      expect((await kernel.getNodeAddresses()).map((each) => each.address)).not.toContain(address(family, 1));
      expect(await boundAddresses(kernel)).toEqual([address(family, 1)]);
      await bed().removeNodeAddress(own);
      expect(await kernel.getNodeAddresses()).not.toContainEqual(own);
    });
  });
}
