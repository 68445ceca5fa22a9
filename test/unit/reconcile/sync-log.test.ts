import { expect, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { Reconciling, TestLog } from '../../support/reconciling.ts';
import { address, vsId } from '../../support/state.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { formatOp } from '../../../src/state/op.ts';

const WEB = service('web', '10.96.0.10');

function endpoints(...addresses: string[]): SourceEvent {
  return { kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', addresses) } };
}

async function started() {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const log = Object.assign(new TestLog(), { enabled: (level: number) => level <= 2 });
  const run = new Reconciling(kernel, { log });
  await run.take(...listed([WEB], [slice('web', ['10.244.0.5'])]));
  const said = (start: string) =>
    log.entries.splice(0).flatMap(({ message, fields }) => (message.startsWith(start) ? [fields] : []));
  said('');
  const errors = () => log.lines.splice(0).filter((line) => line.startsWith('error: full sync failed')).length;
  errors();
  return { kernel, run, said, errors };
}

test('a sync says what it did to which objects', async () => {
  const { run, said } = await started();
  await run.take(endpoints('10.244.0.6'));
  expect(said('synced')).toEqual([
    expect.objectContaining({
      kind: 'change',
      operations: 2,
      objects: [
        'add-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=1',
        'delete-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=0',
      ],
    }),
  ]);
});

test('it names ten objects and counts the others, without those that the kernel refused', async () => {
  const { kernel, run, said } = await started();
  kernel.failOps((op) => (op.kind === 'add-real-server' && formatOp(op).includes('10.244.1.7:') ? 12 : undefined));
  const more = Array.from({ length: 12 }, (_, at) => `10.244.1.${at}`);
  await run.take(endpoints('10.244.0.5', ...more));
  const [fields] = said('synced');
  expect(fields).toMatchObject({ operations: 12, failures: 1 });
  // Ten were attempted first, in the order of this node; one of them was refused.
  const objects = fields?.['objects'] as readonly string[];
  expect(objects).toHaveLength(10);
  expect(objects.at(-1)).toBe('and 2 more');
  expect(objects.join()).not.toContain('10.244.1.7:');
});

test('a sync that did nothing is not logged at -v=2', async () => {
  const { run, said } = await started();
  await run.pass(30_000);
  expect(said('synced')).toEqual([]);
});

test('a repair names what it repaired', async () => {
  const { kernel, run, said } = await started();
  kernel.put({ kind: 'delete-virtual-server', id: vsId('10.96.0.10', 80) });
  kernel.put({ kind: 'unbind-address', address: address('10.96.0.10') });
  await run.pass(30_000);
  expect(said('kernel state differed')).toEqual([
    {
      drift: ['1 x add-virtual-server', '1 x add-real-server', '1 x bind-address'],
      objects: [
        'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
        'add-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=1',
        'bind-address 10.96.0.10',
      ],
    },
  ]);
});

test('a failure that lasts is logged once, until a full check succeeds', async () => {
  const { kernel, run, errors } = await started();
  const fails = async (code: string | undefined, ms: number): Promise<number> => {
    kernel.failMethod('getSets', code);
    await run.pass(ms);
    return errors();
  };
  expect(await fails('ENOMEM', 30_000)).toBe(1);
  expect(await fails('ENOMEM', 1_000)).toBe(0);
  expect(await fails('EPERM', 2_000)).toBe(1);
  expect(await fails(undefined, 4_000)).toBe(0);
  expect(await fails('EPERM', 30_000)).toBe(1);
});
