import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import type { IpFamily } from '../../../../src/base/ip.ts';
import { ListOrder } from '../../../../src/kernel/nftables/objects/list-order.ts';
import type { Service } from '../../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../../src/kube/objects/source.ts';
import { virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../../fake-kernel/planes.ts';
import { startOn } from '../../../support/on-plane.ts';
import { listed, port, service, slice } from '../../../support/objects.ts';
import { address, portOf, vsId } from '../../../support/state.ts';

jest.setTimeout(120_000);

/** What is asked of the table. */
interface Asked {
  exchanges: number;
  elements: number;
  endpoints: number;
  dumps: number;
}

function counting(table: FakeNftTable): Asked {
  const asked: Asked = { exchanges: 0, elements: 0, endpoints: 0, dumps: 0 };
  const lookUp = table.lookUp.bind(table);
  table.lookUp = (family, wanted) => {
    const elements = wanted.elements ?? [];
    asked.exchanges += 1;
    asked.elements += elements.length;
    asked.endpoints += elements.filter(({ set }) => set === 'service-endpoints').length;
    return lookUp(family, wanted);
  };
  const eachElement = table.eachElement.bind(table);
  table.eachElement = (...wanted) => {
    asked.dumps += 1;
    return eachElement(...wanted);
  };
  return asked;
}

const podAddress = (n: number, family: IpFamily = 4): string =>
  family === 4 ? `10.244.${n >> 8}.${n & 255}` : `fd00:10:244::${(n + 1).toString(16)}`;
const pods = (count: number, without: readonly number[] = [], family: IpFamily = 4): string[] =>
  Array.from({ length: count }, (_, n) => n)
    .filter((n) => !without.includes(n))
    .map((n) => podAddress(n, family));

async function running(services: readonly Service[], endpoints: readonly string[], ports: number) {
  const table = new FakeNftTable();
  const { kernel, run } = await startOn(nftablesPlane(table));
  const slicePorts = Array.from({ length: ports }, (_, n) => ({
    name: `p${n}`,
    protocol: 'TCP' as const,
    port: 8080 + n,
  }));
  const changed = (of: Service, list: readonly string[]): SourceEvent => ({
    kind: 'endpoint-slice',
    event: {
      type: 'applied',
      object: slice(of.meta.name, list, {
        ports: ports === 1 ? [{ name: '', protocol: 'TCP', port: 8080 }] : slicePorts,
      }),
    },
  });
  await run.take(...listed(services, []), ...services.map((of) => changed(of, endpoints)));
  const asked = counting(table);
  return { kernel, table, run, asked, changed };
}

describe('one endpoint less, or more, reads little', () => {
  test.each([4, 6] as const)('of 500 at one address of IPv%i', async (family) => {
    const web = service('web', family === 4 ? '10.96.0.1' : 'fd00:96::1');
    const { kernel, table, run, asked, changed } = await running([web], pods(500, [], family), 1);
    // Other programs change the ruleset all the time.
    table.changeByOthers(() => undefined);
    expect((await run.take(changed(web, pods(500, [123], family)))).failures).toEqual([]);
    // The removed one when it is read, and again with the last one before they are replaced.
    expect(asked).toMatchObject({ endpoints: 3, dumps: 0 });
    table.changeByOthers(() => undefined);
    Object.assign(asked, { endpoints: 0, elements: 0 });
    expect((await run.take(changed(web, pods(501, [123], family)))).failures).toEqual([]);
    // What the first change left has gone before.
    expect(asked).toMatchObject({ endpoints: 1, dumps: 0 });
    const [servers] = (await kernel.getRealServers(await kernel.getVirtualServers())).values();
    expect(new Set(servers!.map(({ address: at }) => at))).toEqual(
      new Set(pods(501, [123], family).map((text) => address(text))),
    );
    expect((await run.pass(30_000)).operations.size).toBe(0);
    await run.reconciler.stop();
  });

  test('in 4 Services with 100 ports each', async () => {
    const ports = Array.from({ length: 100 }, (_, n) => port(1_000 + n, { name: `p${n}` }));
    const services = [1, 2, 3, 4].map((n) => service(`s${n}`, `10.96.0.${n}`, { ports }));
    const { table, run, asked, changed } = await running(services, pods(500), 100);
    table.changeByOthers(() => undefined);
    const report = await run.take(...services.map((of) => changed(of, pods(500, [0, 77]))));
    expect(report.failures).toEqual([]);
    // Of each of the 400 lists: the two removed endpoints, again with those that move to their places, and, to delete
    // what the change has left, the last two.
    expect(asked.endpoints).toBeLessThanOrEqual(400 * (2 + 4 + 2));
    // And each time the two elements that may lead there; when it is compared, the one that says what it is, too. A check of
    // the rules asks for some others.
    expect(asked.elements).toBeLessThanOrEqual(400 * (2 + 1 + 2 + 4 + 2 + 2) + 400);
    expect(asked.dumps).toBe(0);
    const report2 = await run.pass(30_000);
    expect([report2.kind, report2.operations.size]).toEqual(['full', 0]);
    await run.reconciler.stop();
  });
});

type Elements = Map<string, { key: Uint8Array; data?: unknown }>;

describe('what is remembered is a hint', () => {
  /** Another program's acts. */
  const ACTS: Readonly<Record<string, (elements: Elements, at: number, count: number) => void>> = {
    nothing: () => undefined,
    'deletes an endpoint': (elements, at) => elements.delete([...elements.keys()][at % elements.size]!),
    'deletes all endpoints': (elements) => elements.clear(),
    'exchanges two endpoints': (elements, at, count) => {
      // By their index: the last one, which the next change may move, with another one that is in use.
      const keys = new Map(Array.from(elements, ([text, { key }]) => [key.at(-4)!, text]));
      const [one, other] = [keys.get(count - 1), keys.get(at % (count - 1))];
      if (keys.size < count) return;
      const [a, b] = [elements.get(one!)!, elements.get(other!)!];
      elements.set(one!, { ...a, data: b.data });
      elements.set(other!, { ...b, data: a.data });
    },
  };

  test('whatever another program does to the endpoints, a full check finds nothing that a change has made worse', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<IpFamily>(4, 6),
        fc.array(
          fc.record({
            act: fc.constantFrom(...Object.keys(ACTS)),
            at: fc.nat(40),
            without: fc.array(fc.nat(40), { maxLength: 5 }),
          }),
          { minLength: 1, maxLength: 8 },
        ),
        async (family, steps) => {
          const web = service('web', family === 4 ? '10.96.0.1' : 'fd00:96::1');
          const { kernel, table, run, changed } = await running([web], pods(40, [], family), 1);
          const listOf = async (): Promise<readonly string[]> => {
            const [servers] = (await kernel.getRealServers(await kernel.getVirtualServers())).values();
            return servers!.map(({ address: at }) => String(at));
          };
          let count = 40;
          for (const [n, { act, at, without }] of steps.entries()) {
            table.changeByOthers(
              (found) => ACTS[act]!(found!.sets.get('service-endpoints')!.elements, at, count),
              family,
            );
            const wanted = pods(40 + (n % 3), without, family);
            count = wanted.length;
            expect((await run.take(changed(web, wanted))).failures).toEqual([]);
            // An exchange is no damage, and what is not there was deleted by the other program: no endpoint is twice.
            const between = await listOf();
            expect(new Set(between).size).toBe(between.length);
            expect((await run.pass(30_000)).failures).toEqual([]);
            expect([...(await listOf())].sort()).toEqual(wanted.map((text) => String(address(text))).sort());
          }
          await run.reconciler.stop();
        },
      ),
      { numRuns: 60 },
    );
  });

  test('endpoints with the same hash are read', () => {
    const order = new ListOrder();
    const key = virtualServerKey(vsId('10.96.0.1', 80));
    const of = (text: string, number: number) => ({ address: address(text), port: portOf(number) });
    // Ports are spread over all bits: this address and port have the hash of the first endpoint.
    const endpoints = Array.from({ length: 20 }, (_, n) => of(`10.0.0.${n + 1}`, 80));
    const mix = (Math.imul(80, 0x9e37_79b1) ^ Math.imul(81, 0x9e37_79b1) ^ Number(endpoints[0]!.address)) >>> 0;
    const same = { address: mix as never, port: portOf(81) };
    order.remember(key, endpoints);
    expect(order.recall(key, 20, endpoints)).toEqual(endpoints);
    expect(order.recall(key, 20, [...endpoints, same])).toBeUndefined();
    expect(order.recall(key, 19, endpoints)).toBeUndefined();
    order.remember(key, [...endpoints, same]);
    expect(order.recall(key, 21, endpoints)).toBeUndefined();
    expect(order.matches(key, endpoints)).toBe(false);
  });
});
