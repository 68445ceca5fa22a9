import type { TrialContext } from '../context.ts';
import { restart } from '../../control.ts';
import { checkFreshStart } from '../node-state.ts';
import { OurPods } from '../our-pods.ts';
import { awaitServed, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

const BINDING = 'clusterrolebinding/kube-ipvs-proxy';

/** Without its rights, the daemon serves what it knows, or what the kernel has. */
export const roleTaken: Trial = {
  name: 'role-taken',
  what: 'the ClusterRoleBinding deleted and created again, while ours runs and while all of ours start',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    const binding = await context.kubectl(['get', BINDING, '--output=json']);
    await whileRunning(context, ours, binding);
    await whileStarting(context, ours, binding);
    await checkFreshStart(context, ours);
  },
};

async function whileRunning(context: TrialContext, ours: OurPods, binding: string): Promise<void> {
  context.step('the ClusterRoleBinding is deleted and the API server restarted, which ends open watches');
  const taken = Date.now();
  await without(context, binding, async () => {
    await restart(context.state, 'kube-apiserver');
    const ready = Date.now();
    await context.until('the log names the missing right', 90, async () =>
      (await ours.logs(taken)).includes('not allowed to list and watch services (403'),
    );
    context.measure('from the ready API server until the log names it', `${(Date.now() - ready) / 1000} s`);
    await context.wait(20);
  });
  context.step('the ClusterRoleBinding is back');
  const given = Date.now();
  await context.apply(await serviceOf(context, 'new-right'));
  await awaitServed(context, 'new-right', 90);
  context.measure('until every node serves a new Service again', `${(Date.now() - given) / 1000} s`);
  await context.until('the log says that it is over', 60, async () =>
    (await ours.logs(given)).includes('watch on services re-established'),
  );
}

async function whileStarting(context: TrialContext, ours: OurPods, binding: string): Promise<void> {
  context.step('the ClusterRoleBinding is deleted and all of ours are restarted at once');
  await without(context, binding, async () => {
    await ours.deleteAll();
    await context.wait(45);
  });
  context.step('the ClusterRoleBinding is back again');
  const given = Date.now();
  await ours.awaitAll();
  await context.apply(await serviceOf(context, 'new-start'));
  await awaitServed(context, 'new-start', 90);
  context.measure('until ours has started and every node serves a new Service', `${(Date.now() - given) / 1000} s`);
}

async function without(context: TrialContext, binding: string, run: () => Promise<void>): Promise<void> {
  await context.kubectl(['delete', BINDING]);
  try {
    await run();
  } finally {
    await context.kubectl(['apply', '--filename=-'], binding);
  }
}
