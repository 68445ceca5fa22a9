import type { TrialContext } from '../context.ts';
import { restart, restoreEtcd, snapshotEtcd, startKubelet, stopKubelet } from '../../control.ts';
import { checkFreshStart } from '../node-state.ts';
import { OurPods } from '../our-pods.ts';
import { awaitNotServed, awaitServed, clusterIpOf, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

const SECONDS = 600;

/** The resourceVersion goes back, behind what every watch has seen. */
export const etcdRestored: Trial = {
  name: 'etcd-restored',
  what: `etcd restored from a snapshot that is ${SECONDS} s old; a Service deleted and one created in that time`,
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    await context.apply(await serviceOf(context, 'older'));
    await awaitServed(context, 'older', 30);
    const older = await clusterIpOf(context, 'older');
    context.step('a snapshot of etcd');
    await snapshotEtcd(context.state);
    context.step('changes that will be lost: a Service deleted, another created');
    await context.own(['delete', 'service', 'older']);
    await context.apply(await serviceOf(context, 'newer'));
    await awaitServed(context, 'newer', 30);
    await awaitNotServed(context, older, 30);
    const newer = await clusterIpOf(context, 'newer');
    await context.wait(SECONDS);
    context.step('etcd goes back to the snapshot');
    const begin = Date.now();
    await restoreEtcd(context.state);
    const ready = Date.now();
    await awaitServed(context, 'older', 300);
    await awaitNotServed(context, newer, 300);
    context.measure(
      'from the ready API server until every node serves the old state',
      `${(Date.now() - ready) / 1000} s`,
    );
    await restartOthers(context);
    context.step('a new Service, whose resourceVersion is lower than those before');
    await context.apply(await serviceOf(context, 'afterwards'));
    await awaitServed(context, 'afterwards', 30);
    const log = await ours.logs(begin);
    context.check('the log says that the state of the API server is older', log.includes('is older than ours'));
    await checkFreshStart(context, ours);
  },
};

/** What Kubernetes' own documentation asks for after a restore. Ours is not restarted. */
async function restartOthers(context: TrialContext): Promise<void> {
  const { state } = context;
  context.step('controller manager, scheduler and kubelets are restarted, as Kubernetes asks for');
  for (const name of ['kube-controller-manager', 'kube-scheduler']) await restart(state, name);
  for (const { name } of state.nodes) {
    await stopKubelet(state, name);
    await startKubelet(state, name);
  }
  await context.wait(15);
}
