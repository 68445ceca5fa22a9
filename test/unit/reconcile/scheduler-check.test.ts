import { expect, test } from '@jest/globals';
import { SchedulerCheck } from '../../../src/reconcile/scheduler-check.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, service } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';

test('a Service whose scheduler the kernel lacks has that of the node, until a full check finds the other', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const annotations = [{ name: 'scheduler', value: 'twos' }];
  await run.take(...listed([service('web', '10.96.0.10', { annotations }), service('other', '10.96.0.11')], []));
  const schedulers = async () => (await kernel.getVirtualServers()).map(({ scheduler }) => scheduler);
  expect(await schedulers()).toEqual(['lc', 'lc']);
  const warnings = run.log.lines.filter((line) => line.startsWith('warn: '));
  expect(warnings).toEqual([
    'warn: annotation kube-ipvs-proxy/scheduler: lc is used: the kernel has no IPVS scheduler twos: is the module ip_vs_twos missing?',
  ]);
  kernel.schedulers.add('twos');
  await run.pass(30_000);
  expect((await schedulers()).toSorted()).toEqual(['lc', 'twos']);
});

test('the kernel is asked once for each scheduler, and again for those that it lacks', async () => {
  const kernel = new FakeKernel();
  const check = new SchedulerCheck(kernel);
  await check.learn(['wrr', 'twos']);
  await check.learn(['twos', 'wrr']);
  expect(kernel.calls.get('probeScheduler')).toBe(2);
  expect([...check.missing.keys()]).toEqual(['twos']);
  expect(check.missing.get('twos')).toContain('no IPVS scheduler twos');
  expect(await check.learnAgain()).toBe(false);
  kernel.schedulers.add('twos');
  expect(await check.learnAgain()).toBe(true);
  expect([...check.missing]).toEqual([]);
  expect(kernel.calls.get('probeScheduler')).toBe(4);
});

test('a kernel that cannot be asked has no scheduler for now', async () => {
  const kernel = new FakeKernel();
  kernel.failMethod('probeScheduler', 'ENOMEM');
  const check = new SchedulerCheck(kernel);
  await check.learn(['wrr']);
  expect([...check.missing.keys()]).toEqual(['wrr']);
  kernel.recover();
  expect(await check.learnAgain()).toBe(true);
});
