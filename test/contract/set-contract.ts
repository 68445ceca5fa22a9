import { describe, expect, test } from '@jest/globals';
import type { IpFamily } from '../../src/base/ip.ts';
import { type IpSetType, formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { Op } from '../../src/state/op.ts';
import { Transaction } from '../../src/state/transaction.ts';
import type { ContractBed } from './contract-bed.ts';
import { entry, set } from './objects.ts';

const TYPES: readonly IpSetType[] = ['hash:ip', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net', 'bitmap:port'];

export function setContract(family: IpFamily, bed: () => ContractBed): void {
  const apply = async (...ops: readonly Op[]) => bed().kernel.apply(new Transaction(ops));
  const clean = { failures: [] };

  describe('sets', () => {
    test.each(TYPES)('sets of type %s are created, filled, read, emptied and destroyed', async (type) => {
      const one = set(family, 'ONE', type);
      const entries = [1, 2, 3].map((n) => entry(family, type, n));
      const create: Op = { kind: 'create-set', set: one };
      const additions = entries.map((each): Op => ({ kind: 'add-entry', set: one, entry: each }));
      expect(await apply(create, ...additions)).toEqual({ failures: [] });
      // Again: all is there.
      expect(await apply(create, ...additions)).toEqual({ failures: [] });
      const lines = entries.map((each) => `add ${one.name} ${formatIpSetEntry(each)}`);
      expect(await bed().sets()).toEqual([...lines, `create ${one.name} ${type}`].sort());
      const [observed, ...others] = await bed().kernel.getSets();
      expect(others).toEqual([]);
      expect(observed).toMatchObject(one);
      expect(new Set(observed?.entries.map(formatIpSetEntry))).toEqual(new Set(entries.map(formatIpSetEntry)));
      const deletions = entries.slice(1).map((each): Op => ({ kind: 'delete-entry', set: one, entry: each }));
      expect(await apply(...deletions)).toMatchObject(clean);
      expect(await apply(...deletions)).toMatchObject(clean);
      expect(await bed().sets()).toEqual([...lines.slice(0, 1), `create ${one.name} ${type}`].sort());
      expect(await apply({ kind: 'destroy-set', set: one })).toMatchObject(clean);
      expect(await apply({ kind: 'destroy-set', set: one }, ...deletions)).toMatchObject(clean);
      expect(await bed().sets()).toEqual([]);
    });

    test('a full set refuses entries, each with its name, and grows on demand', async () => {
      // The kernel's hash types keep the limit only roughly below 64 entries.
      const small = set(family, 'SMALL', 'hash:ip,port', 64);
      const entries = Array.from({ length: 200 }, (_, n) => entry(family, 'hash:ip,port', n + 1));
      const outcome = await apply(
        { kind: 'create-set', set: small },
        ...entries.map((each): Op => ({ kind: 'add-entry', set: small, entry: each })),
      );
      const present = (await bed().kernel.getSets())[0]?.entries ?? [];
      expect(present.length).toBeGreaterThanOrEqual(32);
      expect(outcome.failures.map(({ code }) => code)).toEqual(
        Array.from({ length: 200 - present.length }, () => 'IPSET_ERR_HASH_FULL'),
      );
      const large = { ...small, maxEntries: 1024 };
      expect(await apply({ kind: 'grow-set', set: large, entries })).toMatchObject(clean);
      const [grown, ...others] = await bed().kernel.getSets();
      expect(others).toEqual([]);
      expect(grown).toMatchObject({ name: small.name, maxEntries: 1024 });
      expect(grown?.entries).toHaveLength(200);
      expect(await bed().sets()).toHaveLength(201);
    });

    test('a set that cannot be changed is reported, and the others are changed', async () => {
      const one = set(family, 'ONE', 'hash:ip');
      const missing = set(family, 'MISSING', 'hash:ip');
      const outcome = await apply(
        { kind: 'create-set', set: one },
        { kind: 'create-set', set: { ...one, type: 'hash:ip,port' } },
        { kind: 'grow-set', set: missing, entries: [] },
        { kind: 'add-entry', set: missing, entry: entry(family, 'hash:ip', 1) },
        { kind: 'add-entry', set: one, entry: entry(family, 'hash:ip', 1) },
      );
      expect(outcome.failures.map(({ op, code }) => `${op.kind} ${code}`)).toEqual([
        'create-set EEXIST',
        'grow-set ENOENT',
        'add-entry ENOENT',
      ]);
      expect(await bed().sets()).toHaveLength(2);
    });

    test('sets are found by name, without their entries; a set of another type counts as missing', async () => {
      const one = set(family, 'ONE', 'hash:ip,port,ip');
      const ports = set(family, 'PORTS', 'bitmap:port');
      const wanted = { ...one, type: 'hash:ip,port', maxEntries: 1024 } as const;
      await apply({ kind: 'create-set', set: one }, { kind: 'create-set', set: ports });
      const found = await bed().kernel.findSets([one.name, 'KUBE-MISSING', ports.name]);
      expect([...found]).toEqual([
        [one.name, one],
        [ports.name, ports],
      ]);
      const named = await bed().kernel.getSets(['KUBE-MISSING', ports.name]);
      expect(named.map(({ name, entries }) => [name, entries])).toEqual([[ports.name, []]]);
      expect(await bed().kernel.getSets([])).toEqual([]);
      const { failures } = await apply({ kind: 'grow-set', set: wanted, entries: [entry(family, 'hash:ip,port', 1)] });
      expect(failures.map(({ code }) => code)).toEqual(['IPSET_ERR_TYPE_MISMATCH']);
      expect(await bed().sets()).toHaveLength(2);
    });

    test('a set accepts many entries in one batch', async () => {
      const big = set(family, 'BIG', 'hash:ip,port');
      const additions = Array.from({ length: 5000 }, (_, n): Op => ({
        kind: 'add-entry',
        set: big,
        entry: entry(family, 'hash:ip,port', n + 1),
      }));
      expect(await apply({ kind: 'create-set', set: big }, ...additions)).toEqual({ failures: [] });
      expect((await bed().kernel.getSets())[0]?.entries).toHaveLength(5000);
    });
  });
}
