import { describe, expect, jest, test } from '@jest/globals';
import type { IpFamily } from '../../../../src/base/ip.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import type { Service } from '../../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../../src/kube/objects/source.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { type RulesPlane, nftablesPlane } from '../../../fake-kernel/planes.ts';
import { endpoint, listed, meta, port, service, slice } from '../../../support/objects.ts';
import { NODE } from '../../../support/on-plane.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG, Reconciling } from '../../../support/reconciling.ts';
import { address } from '../../../support/state.ts';
import { rulesetOfTable } from '../../../trace/nft-table.ts';
import { trace } from '../../../trace/trace.ts';

jest.setTimeout(60_000);

interface Shape {
  readonly ports?: number;
  readonly externalIps?: number;
  readonly change?: Partial<Service>;
}

const externalIp = (n: number): string => `203.0.113.${n}`;

function web({ ports = 1, externalIps = 0, change = {} }: Shape): SourceEvent {
  const object = service('web', '10.96.0.10', {
    ports: Array.from({ length: ports }, (_, n) => port(80 + n, { name: `p${n}` })),
    externalIPs: Array.from({ length: externalIps }, (_, n) => externalIp(n + 1)),
    ...change,
  });
  return { kind: 'service', event: { type: 'applied', object } };
}

/** The first `here` of them are on this node. */
function pods(count: number, { ports = 1, here = 0, of = 'web' } = {}): SourceEvent {
  const list = Array.from({ length: count }, (_, n) =>
    endpoint(`10.244.0.${n + 1}`, { nodeName: n < here ? PLAN_CONFIG.nodeName : 'node-b' }),
  );
  const named = Array.from({ length: ports }, (_, n) => ({
    name: of === 'web' ? `p${n}` : '',
    protocol: 'TCP' as const,
    port: 8080 + n,
  }));
  return { kind: 'endpoint-slice', event: { type: 'applied', object: slice(of, list, { ports: named }) } };
}

const GONE: SourceEvent = {
  kind: 'service',
  event: { type: 'deleted', object: { namespace: 'default', name: 'web' } },
};

/** The table in memory, and a daemon that writes it. */
class Bed {
  readonly table = new FakeNftTable();
  readonly plane: RulesPlane = nftablesPlane(this.table);
  kernel!: Kernel;
  run!: Reconciling;
  readonly #watched = new Set<string>();
  /** What a packet would have lost, and after which transaction. */
  readonly lost: string[] = [];

  static async start(sharesEndpoints = true): Promise<Bed> {
    const bed = new Bed();
    bed.plane.node.setNodeAddresses(NODE);
    await bed.plane.kernel.prepare();
    bed.run = bed.daemon(sharesEndpoints);
    await bed.run.take(...listed([], []));
    return bed;
  }

  /** A daemon that knows only what is in the table. */
  daemon(sharesEndpoints = true): Reconciling {
    const plan = { ...PLAN_CONFIG, ...MODE_PLANS.nftables, sharesEndpoints };
    this.kernel = this.plane.another();
    return new Reconciling(this.kernel, { plan }, []);
  }

  async settle(...events: readonly SourceEvent[]): Promise<readonly (readonly NftMessage[])[]> {
    const before = this.table.committed.length;
    for (const event of events) {
      const { failures } = await this.run.settle(event);
      if (failures.length > 0) throw new Error(`${failures.length} operations failed`);
    }
    return this.table.committed.slice(before);
  }

  elements(set: string, family: IpFamily = 4): number {
    return this.table.tables.get(family)?.sets.get(set)?.elements.size ?? 0;
  }

  sizes(): Readonly<Record<string, number>> {
    const names = ['service-ips', 'service-endpoints', 'shared-lists', 'shared-endpoints'];
    return Object.fromEntries(names.map((name) => [name, this.elements(name)]));
  }

  chains(pattern: RegExp): readonly string[] {
    return [...(this.table.tables.get(4)?.chains.keys() ?? [])].filter((name) => pattern.test(name)).toSorted();
  }

  /** To which endpoints a client's packets go. */
  async reached(at: string, number = 80, tables = this.table): Promise<readonly string[]> {
    const client = { source: address('192.168.9.77'), through: 'eth0', protocol: 'TCP' as const };
    const packet = { ...client, destination: address(at), port: number };
    const own = new Set(NODE.map((each) => each.address));
    const fate = trace(await rulesetOfTable(tables, 4), packet, { isLocal: (each) => own.has(each) });
    return fate.map(({ value }) => value.endpoint ?? value.verdict).toSorted();
  }

  /**
   * After each transaction, packets to these addresses must find an endpoint: those that came before it, which pass the old
   * rules and find the new elements, too. A chain that the old rules do not have is empty there.
   */
  watch(...addresses: readonly string[]): void {
    for (const each of addresses) this.#watched.add(each);
    const commit = this.table.commit.bind(this.table);
    this.table.commit = async (family, messages, generation) => {
      const before = this.table.tables.get(4);
      const [old, oldSets] = [new Map(before?.chains), new Map(before?.sets)];
      const refusal = await commit(family, messages, generation);
      const after = this.table.tables.get(4);
      if (refusal !== undefined || family !== 4 || before === undefined || after === undefined) return refusal;
      const mixed = new FakeNftTable();
      const chains = new Map(old);
      for (const [name, { chain }] of after.chains) if (!chains.has(name)) chains.set(name, { chain, rules: [] });
      // Old rules keep the sets that they use.
      mixed.tables.set(4, { dormant: false, chains, sets: new Map([...oldSets, ...after.sets]) });
      for (const at of this.#watched) {
        for (const tables of [this.table, mixed]) {
          const ends = await this.reached(at, 80, tables);
          const wrong = ends.filter((end) => !end.includes(':'));
          if (wrong.length > 0)
            this.lost.push(`${at} ${tables === mixed ? 'old rules' : 'new rules'}: ${wrong.join()}`);
        }
      }
      return refusal;
    };
  }

  /** Leftovers are deleted before the next change. */
  async nextChange(): Promise<void> {
    await this.settle(
      { kind: 'service', event: { type: 'applied', object: service('other', '10.96.0.99') } },
      { kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'other' } } },
    );
  }
}

/** How many elements and rules transactions write. */
function cost(transactions: readonly (readonly NftMessage[])[]): number {
  return transactions.flat().reduce((sum, message) => sum + ('elements' in message ? message.elements.size : 1), 0);
}

describe('endpoints of a Service port are written once for all of its addresses', () => {
  test('3 ports x 4 endpoints at 6 addresses are 12 endpoints and 3 lists', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4, { ports: 3 }), web({ ports: 3, externalIps: 5 }));
    expect(bed.sizes()).toEqual({
      'service-ips': 18,
      'service-endpoints': 0,
      'shared-lists': 3,
      'shared-endpoints': 12,
    });
    expect(await bed.reached('203.0.113.5', 82)).toEqual([1, 2, 3, 4].map((n) => `10.244.0.${n}:8082`));
    expect(bed.chains(/^choose-of/)).toEqual(['80', '81', '82'].map((n) => `choose-of/10.96.0.10_tcp_${n}`));
  });

  test('a Service with one address has them in its own name, without a chain of its own', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({}));
    expect(bed.sizes()).toMatchObject({ 'service-endpoints': 4, 'shared-lists': 0, 'shared-endpoints': 0 });
    expect(bed.chains(/^choose/)).toEqual(['choose-4']);
  });

  test.each([0, 3_600])(
    'with an affinity of %d s, one endpoint more or less costs the same for any number of addresses',
    async (seconds) => {
      const costs: number[][] = [];
      for (const externalIps of [1, 30]) {
        const bed = await Bed.start();
        const change: Partial<Service> =
          seconds === 0 ? {} : { sessionAffinity: 'ClientIP', affinityTimeoutSeconds: seconds };
        await bed.settle(pods(20), web({ externalIps, change }));
        bed.watch('10.96.0.10', '203.0.113.1');
        const more = cost(await bed.settle(pods(21)));
        const less = cost(await bed.settle(pods(19)));
        costs.push([more, less]);
        expect(await bed.reached('203.0.113.1')).toHaveLength(19);
        expect(bed.lost).toEqual([]);
      }
      expect(costs[1]).toEqual(costs[0]);
    },
  );

  test('the same for the reads of a change', async () => {
    const reads: number[] = [];
    for (const externalIps of [1, 30]) {
      const bed = await Bed.start();
      await bed.settle(pods(20), web({ externalIps }));
      const lookUp = jest.spyOn(bed.table, 'lookUp');
      await bed.settle(pods(21));
      reads.push(lookUp.mock.calls.flatMap(([, { elements = [], chains = [] }]) => [...elements, ...chains]).length);
    }
    expect(reads[1]).toBe(reads[0]);
  });
});

describe('no packet is lost when', () => {
  test('a table of a version that shares nothing is adopted', async () => {
    const bed = await Bed.start(false);
    await bed.settle(pods(4), web({ externalIps: 3 }));
    expect(bed.sizes()).toMatchObject({ 'service-endpoints': 16, 'shared-endpoints': 0 });
    await bed.run.reconciler.stop();
    bed.watch('10.96.0.10', '203.0.113.1', '203.0.113.3');
    bed.run = bed.daemon();
    const report = await bed.run.take(...listed([], []), pods(4), web({ externalIps: 3 }));
    expect(report).toMatchObject({ kind: 'first', ok: true, failures: [] });
    await bed.nextChange();
    expect(bed.sizes()).toEqual({
      'service-ips': 4,
      'service-endpoints': 0,
      'shared-lists': 1,
      'shared-endpoints': 4,
    });
    expect(bed.lost).toEqual([]);
    expect(await bed.reached('203.0.113.3')).toHaveLength(4);
  });

  test('an address appears and goes, so that the list is shared and is not', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({}));
    bed.watch('10.96.0.10');
    await bed.settle(web({ externalIps: 1 }));
    expect(bed.sizes()).toMatchObject({ 'shared-lists': 1, 'shared-endpoints': 4 });
    await bed.settle(web({}));
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'service-endpoints': 4, 'shared-lists': 0, 'shared-endpoints': 0 });
    expect(bed.lost).toEqual([]);
  });

  test('lists become different and the same again', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4, { here: 2 }), web({ externalIps: 3 }));
    bed.watch('10.96.0.10', '203.0.113.1', '203.0.113.3');
    const change: Partial<Service> = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };
    await bed.settle(web({ externalIps: 3, change }));
    expect(await bed.reached('203.0.113.3')).toHaveLength(2);
    expect(await bed.reached('10.96.0.10')).toHaveLength(4);
    expect(bed.chains(/^choose-of/)).toContain('choose-of/203.0.113.1_tcp_80');
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'service-endpoints': 4, 'shared-lists': 1, 'shared-endpoints': 2 });
    await bed.settle(web({ externalIps: 3 }));
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'service-endpoints': 0, 'shared-lists': 1, 'shared-endpoints': 4 });
    expect(bed.chains(/^choose-of/)).toEqual(['choose-of/10.96.0.10_tcp_80']);
    expect(bed.lost).toEqual([]);
  });

  test('the address goes whose list the others have', async () => {
    const bed = await Bed.start();
    const change: Partial<Service> = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };
    await bed.settle(pods(4, { here: 2 }), web({ externalIps: 3, change }));
    bed.watch('203.0.113.2', '203.0.113.3');
    await bed.settle(web({ change: { ...change, externalIPs: [externalIp(2), externalIp(3)] } }));
    expect(await bed.reached('203.0.113.3')).toHaveLength(2);
    await bed.nextChange();
    expect(bed.chains(/^choose-of/)).toEqual(['choose-of/203.0.113.2_tcp_80']);
    expect(bed.sizes()).toMatchObject({ 'shared-lists': 1, 'shared-endpoints': 2 });
    expect(bed.lost).toEqual([]);
  });

  test('everything goes, nothing is left', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({ externalIps: 3 }));
    await bed.settle(GONE);
    await bed.nextChange();
    expect(bed.sizes()).toEqual({ 'service-ips': 0, 'service-endpoints': 0, 'shared-lists': 0, 'shared-endpoints': 0 });
    expect(bed.chains(/^choose-of/)).toEqual([]);
  });
});

describe('what is refused or damaged', () => {
  test('a list that the kernel refuses costs no other Service anything', async () => {
    const bed = await Bed.start();
    bed.table.refuse = (messages) =>
      messages.some((message) => message.kind === 'new-elements' && message.set === 'shared-lists')
        ? 'ENOMEM'
        : undefined;
    const other = service('other', '10.96.0.11');
    await bed.run.take(pods(4), web({ externalIps: 3 }), pods(2, { of: 'other' }), {
      kind: 'service',
      event: { type: 'applied', object: { ...other, meta: meta('other') } },
    });
    expect(await bed.reached('10.96.0.11')).toHaveLength(2);
    expect(await bed.reached('203.0.113.1')).toEqual(['forwarded']);
    bed.table.refuse = () => undefined;
    await bed.run.pass(30_000);
    await bed.run.pass(30_000);
    expect(await bed.reached('203.0.113.1')).toHaveLength(4);
  });

  test.each<readonly [string, (tables: NonNullable<ReturnType<FakeNftTable['tables']['get']>>) => void]>([
    ['the list', ({ sets }) => sets.get('shared-lists')!.elements.clear()],
    [
      'an endpoint',
      ({ sets }) =>
        void sets.get('shared-endpoints')!.elements.delete([...sets.get('shared-endpoints')!.elements.keys()][1]!),
    ],
    ['the rule of its chain', ({ chains }) => chains.get('choose-of/10.96.0.10_tcp_80')!.rules.splice(0)],
    [
      'what leads to the list of the others',
      ({ sets }) => void sets.get('service-ips')!.elements.delete([...sets.get('service-ips')!.elements.keys()][0]!),
    ],
  ])('%s that another program deletes is restored', async (_what, damage) => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({ externalIps: 3 }));
    bed.table.changeByOthers((table) => damage(table!));
    await bed.run.pass(30_000);
    await bed.run.settle(pods(4));
    for (const at of ['10.96.0.10', externalIp(1), externalIp(3)]) expect(await bed.reached(at)).toHaveLength(4);
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'service-ips': 4, 'shared-lists': 1, 'shared-endpoints': 4 });
    const writes = bed.table.committed.length;
    await bed.run.pass(30_000);
    expect(bed.table.committed).toHaveLength(writes);
  });

  test('what leads to a list goes and comes back: the list was in use by nobody, and stays', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({ externalIps: 3 }));
    const leading = bed.table.tables.get(4)!.sets.get('service-ips')!.elements;
    const before = [...leading];
    bed.table.changeByOthers(() => leading.clear());
    // What says what they are is left.
    expect((await bed.kernel.getVirtualServers()).map(({ scheduler }) => scheduler)).toEqual(
      Array.from({ length: 4 }, () => 'none'),
    );
    bed.table.changeByOthers(() => {
      for (const [key, element] of before) leading.set(key, element);
    });
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'shared-lists': 1, 'shared-endpoints': 4 });
    expect(await bed.reached('203.0.113.1')).toHaveLength(4);
  });

  test('what a process that was killed had left of a list is deleted', async () => {
    const bed = await Bed.start();
    await bed.settle(pods(4), web({ externalIps: 3 }));
    await bed.settle(pods(2));
    expect(bed.sizes()).toMatchObject({ 'shared-endpoints': 4 });
    bed.run = bed.daemon();
    await bed.run.take(...listed([], []), pods(2), web({ externalIps: 3 }));
    await bed.nextChange();
    expect(bed.sizes()).toMatchObject({ 'shared-endpoints': 2 });
  });
});
