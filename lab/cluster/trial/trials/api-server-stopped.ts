import { type TrialContext } from '../context.ts';
import { renewApiServerCertificate } from '../../control.ts';
import { apiServerAway } from '../api-server-away.ts';
import { checkFreshStart } from '../node-state.ts';
import { OurPods } from '../our-pods.ts';
import { awaitServed, serviceOf } from '../probe-service.ts';
import type { Trial } from '../trial.ts';

const SECONDS = 300;

/** Without the API server, the nodes serve what they know. */
export const apiServerStopped: Trial = {
  name: 'api-server-stopped',
  what: `the API server stopped for ${SECONDS} s and started with another certificate`,
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    const ours = new OurPods(context);
    context.step('the API server stops');
    const begin = Date.now();
    const ready = await apiServerAway(context, {
      seconds: SECONDS,
      before: async () => {
        await renewApiServerCertificate(context.state);
        context.step('the API server starts with another certificate');
      },
    });
    await context.apply(await serviceOf(context, 'afterwards'));
    await awaitServed(context, 'afterwards', 60);
    context.measure(
      'from the ready API server until every node serves a new Service',
      `${(Date.now() - ready) / 1000} s`,
    );
    await checkLog(context, ours, begin);
    await checkFreshStart(context, ours);
  },
};

async function checkLog(context: TrialContext, ours: OurPods, since: number): Promise<void> {
  const log = await ours.logs(since);
  context.check('the log names the failure', log.includes('failed to list or watch services at the API server'));
  context.check('the log says when it is over', log.includes('watch on services re-established'));
}
