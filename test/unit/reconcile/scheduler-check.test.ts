import { expect, test } from '@jest/globals';
import { SchedulerCheck } from '../../../src/reconcile/desired/scheduler-check.ts';
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

test('the kernel is never asked for a name that is not a scheduler of Linux, because it would run modprobe with it', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const names = ['', 'no-such', '../../evil', 'ip_vs_rr', 'rr\n', 'RR', '-r', 'x'.repeat(10_000)];
  const services = names.map((value, index) =>
    service(`web-${index}`, `10.96.0.${index + 1}`, { annotations: [{ name: 'scheduler', value }] }),
  );
  await run.take(...listed(services, []));
  expect(kernel.calls.get('probeScheduler')).toBeUndefined();
  expect(new Set((await kernel.getVirtualServers()).map(({ scheduler }) => scheduler))).toEqual(new Set(['lc']));
});

test('5,000 Services of one tenant with bad annotations are 21 lines in the log, and others are served and warned as ever', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const warned: string[] = [];
  const run = new Reconciling(kernel, { onWarning: (name) => warned.push(name) });
  const bad = [{ name: 'scheduler', value: 'bad' }];
  const tenants = Array.from({ length: 5_000 }, (_, index) => {
    const { meta, ...rest } = service(`web-${index}`, `10.96.${index >> 8}.${index & 255}`, { annotations: bad });
    return { ...rest, meta: { ...meta, namespace: 'tenant' } };
  });
  await run.take(...listed([...tenants, service('web', '10.97.0.1', { annotations: bad })], []));
  const warnings = run.log.entries.filter(({ fields }) => fields['reason'] === 'invalid-annotation');
  expect(warnings.map(({ fields }) => fields['service']).slice(19)).toEqual(['tenant/web-19', 'default/web']);
  expect(run.log.lines.filter((line) => line.startsWith('warn: '))).toHaveLength(22);
  // Events have a limit of their own.
  expect(warned).toHaveLength(5_001);
  expect(await kernel.getVirtualServers()).toHaveLength(5_001);
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
