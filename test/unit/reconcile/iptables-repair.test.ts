import { expect, test } from '@jest/globals';
import { iptablesKernelOf } from '../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { NodeKernel } from '../../../src/kernel/linux/node-kernel.ts';
import { IPTABLES_MODE_PLAN } from '../../../src/plan/iptables-mode-plan.ts';
import { FakeIptables } from '../../fake-kernel/fake-iptables.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../../support/reconciling.ts';

test('after a flush, hundreds of Services are written again by a few programs', async () => {
  const programs = new FakeIptables();
  const kernel = Object.assign(iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0), {
    getNodeAddresses: () => Promise.resolve([]),
    getUdpFlows: () => Promise.resolve([]),
  });
  await kernel.prepare();
  const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...IPTABLES_MODE_PLAN } }, []);
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  await run.take(
    ...listed(
      numbers.map((n) => service(`web-${n}`, `10.96.${n >> 8}.${n & 255}`)),
      numbers.map((n) => slice(`web-${n}`, [`10.244.${n >> 8}.${n & 255}`])),
    ),
  );
  expect(await kernel.getVirtualServers()).toHaveLength(300);
  programs.change(4, 'nat', (chains) => {
    for (const name of chains.keys()) if (name.startsWith('KUBE-')) chains.delete(name);
    for (const name of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) chains.set(name, []);
  });
  programs.writes = 0;
  expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: true });
  expect(await kernel.getVirtualServers()).toHaveLength(300);
  expect(programs.writes).toBeLessThanOrEqual(4);
  await run.reconciler.stop();
});
