import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { createIptablesKernel } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { createNftablesKernel } from '../../src/kernel/nftables/nftables-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { runCommand } from '../bed/command.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { listed } from '../support/objects.ts';
import { TEST_MODE } from '../support/mode.ts';
import { reconcilingIn } from '../support/on-plane.ts';
import { type Reconciling, TestLog } from '../support/reconciling.ts';
import { address } from '../support/state.ts';
import type { NodeKernelOptions } from '../../src/kernel/linux/node-kernel.ts';
import { createUserspaceKernel } from '../../src/kernel/userspace/userspace-kernel.ts';
import { FakeEngine } from '../fake-kernel/fake-engine.ts';

jest.setTimeout(180_000);

const NETNS = `history-${process.pid}`;
const NODE_ADDRESSES = ['192.168.9.1', 'fd00:9::1'];

const CREATE = {
  ipvs: createIpvsKernel,
  nftables: createNftablesKernel,
  iptables: createIptablesKernel,
  userspace: (options: NodeKernelOptions) => createUserspaceKernel(options, () => new FakeEngine()),
};

/** The same random histories as on the kernel in memory, on the real one: a few, but long. */
describe('random histories on the real kernel', () => {
  let kernel: Kernel;

  beforeAll(async () => {
    await runCommand(['ip', 'netns', 'add', NETNS]);
    const lines = ['link set lo up', 'link add eth0 type dummy', 'link set eth0 up'];
    const addresses = NODE_ADDRESSES.map(
      (text) => `addr add ${text}/${text.includes(':') ? '64 nodad' : '24'} dev eth0`,
    );
    await runCommand(['ip', '-n', NETNS, '-batch', '-'], { input: `${[...lines, ...addresses].join('\n')}\n` });
    kernel = CREATE[TEST_MODE]({
      log: new TestLog(),
      netns: `/run/netns/${NETNS}`,
    });
    await kernel.prepare();
  });

  afterAll(async () => {
    await kernel.close();
    await runCommand(['ip', 'netns', 'del', NETNS]);
  });

  async function expectNoDrift(run: Reconciling): Promise<void> {
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    expect([...report.operations.keys()]).toEqual([]);
  }

  async function inMemory(events: readonly SourceEvent[]): Promise<string> {
    const fake = new FakeKernel(TEST_MODE);
    await fake.prepare();
    fake.setNodeAddresses(
      NODE_ADDRESSES.map((text) => ({ address: address(text), prefix: 24, interfaceName: 'eth0', tentative: false })),
    );
    await reconcilingIn(TEST_MODE, fake).take(...listed([], []), ...events);
    return kernelText(fake);
  }

  test.each([1, 2, 3])(
    'history %i: each change ends in what the plan wants, and a full check writes nothing',
    async (seed) => {
      const [events = []] = fc.sample(fc.array(anyEvent, { minLength: 120, maxLength: 120 }), { numRuns: 1, seed });
      const run = reconcilingIn(TEST_MODE, kernel);
      // Adopts, and removes, what the history before this one left.
      await run.take(...listed([], []));
      for (let done = 0; done < events.length; done += 40) {
        for (const event of events.slice(done, done + 40)) {
          const report = await run.settle(event);
          expect(report.failures).toEqual([]);
        }
        expect(await kernelText(kernel)).toBe(await inMemory(events.slice(0, done + 40)));
      }
      // What the last changes left is deleted by a full check, and chains by the check of the rules in it.
      if (TEST_MODE === 'nftables') {
        await expectNoDrift(run);
        await run.settle();
      }
      const { writes } = kernel.counters;
      await expectNoDrift(run);
      expect(kernel.counters.writes).toBe(writes);
      await run.reconciler.stop();
    },
  );
});
