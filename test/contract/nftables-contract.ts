import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type IpAddress, type IpFamily, IP_FAMILIES } from '../../src/base/ip.ts';
import { parseCidr } from '../../src/base/cidr.ts';
import { affinityChains } from '../../src/kernel/nftables/objects/affinity-chains.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import { plannedSet } from '../../src/state/set-roles.ts';
import { type AddressTraits, addressTraits } from '../../src/state/address-traits.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { Op } from '../../src/state/op.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { VS_PERSISTENT, virtualServerKey } from '../../src/state/virtual-server.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import { address, endpoint, entry, realServer, virtualServer as anyVirtualServer } from './objects.ts';
import { type PlaneBed, planIn, planeContract } from './plane-contract.ts';

/** A kernel of nftables mode, and what another program can do to its tables. */
export interface NftablesBed extends PlaneBed {
  flushChain(family: IpFamily, chain: string): Promise<void>;
  deleteElements(family: IpFamily, map: string): Promise<void>;
  deleteTables(): Promise<void>;
}

const CONFIG = planIn('nftables');

/** What the Kernel of nftables mode must do, with the kernel's tables and with those in memory: what every mode must, and more. */
export function nftablesContract(makeBed: () => Promise<NftablesBed>): void {
  planeContract('nftables', makeBed);

  describe('the kernel of nftables mode', () => {
    let bed: NftablesBed;
    beforeEach(async () => {
      bed = await makeBed();
      await bed.kernel.prepare();
      for (const family of IP_FAMILIES) await bed.kernel.ensureRules(planRules(CONFIG, family));
    });
    afterEach(async () => {
      await bed[Symbol.asyncDispose]();
    });

    for (const family of IP_FAMILIES) {
      describe(`IPv${family}`, () => {
        ofFamily(family, () => bed);
      });
    }

    test('creates its tables again when they are gone, and removes them for --cleanup', async () => {
      await bed.deleteTables();
      expect(await bed.kernel.getVirtualServers()).toEqual([]);
      expect(await bed.kernel.ensureDevice()).toEqual({ made: true });
      expect(await bed.kernel.ensureDevice()).toEqual({ made: false });
      await bed.kernel.removeDevice();
      await bed.kernel.removeDevice();
      expect(await bed.kernel.ensureDevice()).toEqual({ made: true });
    });
  });
}

function ofFamily(family: IpFamily, bed: () => NftablesBed): void {
  const apply = async (...ops: readonly Op[]) => await bed().kernel.apply(new Transaction(ops));
  const clean = { failures: [] };
  const virtualServer = (at: IpAddress, port: number) => anyVirtualServer(at, port, 'TCP', { scheduler: 'random' });
  const vs = virtualServer(address(family, 10), 80);
  const servers = [1, 2, 3, 4].map((n) => realServer(endpoint(family, n), 8080));
  const addAll: readonly Op[] = [
    { kind: 'add-virtual-server', virtualServer: vs },
    ...servers.map((server): Op => ({ kind: 'add-real-server', id: vs, realServer: server })),
  ];
  const sticky = { ...vs, flags: VS_PERSISTENT, timeout: 10_800 };

  async function endpoints(id = vs): Promise<string[] | undefined> {
    const found = (await bed().kernel.getRealServers([id])).get(virtualServerKey(id));
    return found?.map(({ address: ip, port, weight }) => `${ip} ${port} ${weight}`).sort();
  }

  const texts = (list: typeof servers): string[] => list.map(({ address: ip, port }) => `${ip} ${port} 1`).sort();

  async function expectRules(): Promise<void> {
    expect(await bed().kernel.ensureRules(planRules(CONFIG, family))).toEqual({ changed: false, chains: [] });
  }

  test('the entries of every set are added, read back and removed', async () => {
    const ops = (kind: 'add-entry' | 'delete-entry'): Op[] =>
      MODE_PLANS.nftables.roles.flatMap((role) => {
        const set = plannedSet(role, family, 0);
        return [1, 2].map((n): Op => ({ kind, set, entry: entry(family, set.type, n) }));
      });
    const found = async (): Promise<Set<string>> => {
      const sets = await bed().kernel.getSets();
      return new Set(sets.flatMap(({ name, entries }) => entries.map((each) => `${name} ${formatIpSetEntry(each)}`)));
    };
    const wanted = new Set(
      ops('add-entry').map((op) => ('entry' in op ? `${op.set.name} ${formatIpSetEntry(op.entry)}` : '')),
    );
    for (let times = 0; times < 2; times++) {
      expect(await apply(...ops('add-entry'))).toEqual(clean);
      expect(await found()).toEqual(wanted);
    }
    await expectRules();
    for (let times = 0; times < 2; times++) {
      expect(await apply(...ops('delete-entry'))).toEqual(clean);
      expect(await found()).toEqual(new Set());
    }
    await expectRules();
  });

  test('what an address is to its Service is read back, changed and deleted', async () => {
    const restricted = (...ranges: readonly string[]): AddressTraits =>
      addressTraits('loadBalancer', true, { ranges: ranges.map((text) => parseCidr(text)!), itself: true });
    const [wide, narrow] = family === 4 ? ['10.0.0.0/8', '192.0.2.0/24'] : ['fd00::/16', 'fd01::/32'];
    const all: readonly (AddressTraits | undefined)[] = [
      ...(['cluster', 'external', 'loadBalancer', 'nodePort'] as const).flatMap((kind) => [
        addressTraits(kind, true),
        ...(kind === 'cluster' ? [] : [addressTraits(kind, false)]),
      ]),
      restricted(wide),
      restricted(wide, narrow),
      addressTraits('loadBalancer', false, { ranges: [], itself: false }),
      undefined,
      restricted(narrow),
    ];
    for (const kind of ['add-virtual-server', 'edit-virtual-server'] as const) {
      for (const traits of all) {
        const wanted = { ...vs, ...(traits === undefined ? {} : { traits }) };
        expect(await apply({ kind, virtualServer: wanted }, ...addAll.slice(1))).toEqual(clean);
        expect(await bed().kernel.getVirtualServers()).toEqual([wanted]);
        for (const asked of [vs, wanted]) {
          expect([...(await bed().kernel.findVirtualServers([asked])).values()]).toEqual([wanted]);
        }
        expect(await endpoints()).toEqual(texts(servers));
        await expectRules();
      }
    }
    expect(await apply({ kind: 'delete-virtual-server', id: vs })).toEqual(clean);
    expect(await bed().kernel.getVirtualServers()).toEqual([]);
    await expectRules();
  });

  test('rules and elements that another program removes are restored', async () => {
    await apply(...addAll, { kind: 'edit-virtual-server', virtualServer: sticky });
    await bed().flushChain(family, 'services');
    const repaired = await bed().kernel.ensureRules(planRules(CONFIG, family));
    expect(repaired).toEqual({ changed: true, chains: ['services'] });
    const [group] = affinityChains({ family, protocol: 'TCP', endpoints: servers, seconds: 10_800 });
    const map = group!.sets[0]!.name;
    await bed().deleteElements(family, map);
    expect(await bed().kernel.compareRules(planRules(CONFIG, family))).toMatchObject({
      missing: [{ command: expect.stringMatching(new RegExp(`add element .* ${map} \\{ 0 : goto .*, 3 : goto `)) }],
    });
    expect(await bed().kernel.ensureRules(planRules(CONFIG, family))).toMatchObject({ changed: true });
    await expectRules();
    // Endpoints that are gone are missing, and can be added again.
    await bed().deleteElements(family, 'service-endpoints');
    expect(await endpoints()).toEqual([]);
    // What leads to them is left as it is until then.
    await expectRules();
    expect(await apply(...addAll.slice(1))).toEqual(clean);
    expect(await endpoints()).toEqual(texts(servers));
    await expectRules();
  });
}
