import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { formatIp } from '../../src/base/ip.ts';
import { CheckedEndpoints, checkedService, endpointsOf } from '../support/checked-endpoints.ts';
import { listed } from '../support/objects.ts';

const ALL = ['10.244.0.1', '10.244.0.2', '10.244.0.3', '10.244.0.4', '10.244.0.5'];

type Step =
  | { readonly do: 'silence' | 'hear' | 'close'; readonly address: string }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'endpoints'; readonly addresses: readonly string[] };

const address = fc.constantFrom(...ALL);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constantFrom('silence' as const, 'silence' as const, 'hear' as const, 'close' as const),
    address,
  }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(500, 2_000, 9_000, 20_000) }),
  fc.record({ do: fc.constant('endpoints' as const), addresses: fc.subarray(ALL, { minLength: 1 }) }),
);

/** Longer than a silent endpoint that has become silent often needs, to be asked and to answer often enough. */
const LONG_ENOUGH_MS = 60_000;

test('after any history, the kernel equals the plan, half of the endpoints are used at least, and none that always answered is left out; when all answer, all are used', async () => {
  let judged = 0;
  const history = async (steps: readonly Step[]): Promise<void> => {
    const bed = await CheckedEndpoints.on(new FakeKernel());
    await bed.run.take(...listed([checkedService('web', '10.96.0.10')], [endpointsOf('web', ALL)]));
    bed.checker.start();
    await bed.pass(6_000);
    const everSilent = new Set<string>();
    for (const step of steps) {
      await play(bed, step);
      for (const silent of bed.silent) everSilent.add(silent);
      const plan = Array.from(bed.run.reconciler.plan.virtualServers(), ({ realServers }) => realServers);
      const kernel = bed.servers.map((servers) => servers.filter(({ weight }) => weight > 0));
      expect(kernel.map(textsOf)).toEqual(plan.map((servers) => textsOf(servers.filter(({ weight }) => weight > 0))));
      for (const servers of plan) {
        const left = servers.filter(({ weight }) => weight === 0).map((server) => formatIp(server.address));
        judged += left.length;
        expect(left.length * 2).toBeLessThanOrEqual(servers.length);
        expect(left.filter((each) => !everSilent.has(each))).toEqual([]);
      }
    }
    bed.silent.clear();
    bed.closedToNode.clear();
    await bed.pass(LONG_ENOUGH_MS);
    expect([...bed.checker.silent()]).toEqual([]);
    expect((await bed.run.reconciler.answers.difference(new AbortController().signal)).ops).toEqual([]);
    for (const servers of bed.servers) expect(servers.filter(({ weight }) => weight !== 1)).toEqual([]);
    expect(bed.run.reports.flatMap(({ drift }) => drift)).toEqual([]);
    bed.checker.stop();
    await bed.run.reconciler.stop();
  };
  await fc.assert(fc.asyncProperty(fc.array(anyStep, { minLength: 4, maxLength: 20, size: 'max' }), history), {
    numRuns: 25,
  });
  expect(judged).toBeGreaterThan(10);
});

function textsOf(servers: readonly { readonly address: Parameters<typeof formatIp>[0]; readonly weight: number }[]) {
  return servers.map((server) => `${formatIp(server.address)} ${server.weight}`).toSorted();
}

async function play(bed: CheckedEndpoints, step: Step): Promise<void> {
  switch (step.do) {
    case 'silence':
      bed.silent.add(step.address);
      return;
    case 'hear':
      bed.silent.delete(step.address);
      bed.closedToNode.delete(step.address);
      return;
    case 'close':
      bed.closedToNode.add(step.address);
      return;
    case 'pass':
      return bed.pass(step.ms);
    case 'endpoints':
      await bed.run.take({
        kind: 'endpoint-slice',
        event: { type: 'applied', object: endpointsOf('web', step.addresses) },
      });
  }
}
