import { expect, jest, test } from '@jest/globals';
import type { EndpointSlice } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { FakeNftTable } from '../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../fake-kernel/planes.ts';
import { startOn } from '../../support/on-plane.ts';
import { listed, service, slice } from '../../support/objects.ts';

const NAMES = ['web', 'api', 'dns'];

function changed(object: EndpointSlice): SourceEvent {
  return { kind: 'endpoint-slice', event: { type: 'applied', object } };
}

/** A node in nftables mode that serves three Services, after the first full check. */
async function serving() {
  const table = new FakeNftTable();
  const { kernel, run } = await startOn(nftablesPlane(table));
  const services = NAMES.map((name, n) => service(name, `10.96.0.${n + 1}`));
  const slices = NAMES.map((name, n) => slice(name, [`10.244.0.${n + 1}`]));
  await run.take(...listed(services, slices));
  const list = jest.spyOn(kernel, 'getVirtualServers');
  /** Runs a full check. Returns whether it read the virtual servers. */
  const check = async (ms = 30_000) => {
    list.mockClear();
    const report = await run.pass(ms);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    return { reads: list.mock.calls.length > 0, drift: report.drift.map(({ kind }) => kind) };
  };
  return { kernel, table, run, check };
}

const NOTHING_READ = { reads: false, drift: [] };
const NOTHING_FOUND = { reads: true, drift: [] };

test('a full check reads nothing as long as only this program has written since the last one', async () => {
  const { run, check } = await serving();
  expect(await check()).toEqual(NOTHING_FOUND);
  expect(await check()).toEqual(NOTHING_READ);
  await run.settle(changed(slice('web', ['10.244.0.1', '10.244.0.9'])));
  expect(await check()).toEqual(NOTHING_READ);
  await run.reconciler.stop();
});

test('after a change by another program, it reads and repairs, and reads once more', async () => {
  const { kernel, table, run, check } = await serving();
  await check();
  table.changeByOthers((found) => found!.sets.get('service-ips')!.elements.clear());
  expect(await check()).toMatchObject({ reads: true, drift: expect.arrayContaining(['add-virtual-server']) });
  expect(await kernel.getVirtualServers()).toHaveLength(NAMES.length);
  expect(await check()).toEqual(NOTHING_FOUND);
  expect(await check()).toEqual(NOTHING_READ);
  await run.reconciler.stop();
});

test('a change by another program right after a change of ours is noticed', async () => {
  const { table, run, check } = await serving();
  await check();
  await run.settle(changed(slice('web', ['10.244.0.1', '10.244.0.9'])));
  table.changeByOthers(() => undefined);
  await run.settle(changed(slice('api', ['10.244.0.2', '10.244.0.8'])));
  expect(await check()).toEqual(NOTHING_FOUND);
  await run.reconciler.stop();
});

test('after a refused operation, it reads', async () => {
  const { table, run, check } = await serving();
  await check();
  table.refuse = () => 'ENOMEM';
  expect((await run.settle(changed(slice('web', ['10.244.0.9'])))).failures).not.toEqual([]);
  table.refuse = () => undefined;
  await run.pass(1_000);
  expect(await check()).toEqual(NOTHING_FOUND);
  await run.reconciler.stop();
});

test('it reads after ten minutes, whoever has written', async () => {
  const { run, check } = await serving();
  await check();
  for (let minute = 0; minute < 9.5; minute += 0.5) expect(await check()).toEqual(NOTHING_READ);
  expect(await check()).toEqual(NOTHING_FOUND);
  expect(await check()).toEqual(NOTHING_READ);
  await run.reconciler.stop();
});
