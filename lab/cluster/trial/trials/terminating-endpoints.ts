import type { TrialContext } from '../context.ts';
import { DEPLOYMENT, SERVER_SELECTOR } from '../servers.ts';
import type { Trial } from '../trial.ts';

const REPLICAS = 4;
const PRE_STOP_SECONDS = 90;
const ALONE_SECONDS = 20;

/** While no endpoint is ready, those that are terminating and still serve get the new connections. */
export const terminatingEndpoints: Trial = {
  name: 'terminating-endpoints',
  what: `all ${REPLICAS} servers deleted, but serving for ${PRE_STOP_SECONDS} s more; the next ones created ${ALONE_SECONDS} s later`,
  proxies: ['ours', 'ours-nftables', 'ours-iptables', 'kube-proxy-ipvs', 'kube-proxy-iptables'],
  limits: { failed: 0, cut: 0 },
  servers: { replicas: REPLICAS, preStopSeconds: PRE_STOP_SECONDS },
  async run(context) {
    const old = new Set((await context.pods(SERVER_SELECTOR)).map(({ name }) => name));
    context.step('the Deployment is scaled to 0: all servers are terminating');
    await context.own(['scale', DEPLOYMENT, '--replicas=0']);
    await context.until('all endpoints are terminating', 30, async () => {
      const endpoints = await context.endpoints();
      return endpoints.length > 0 && endpoints.every(({ ready, terminating }) => terminating && !ready);
    });
    await context.wait(ALONE_SECONDS);
    const endpoints = await context.endpoints();
    context.check(
      `after ${ALONE_SECONDS} s, all ${REPLICAS} endpoints are terminating and serving`,
      endpoints.length === REPLICAS * context.state.families.length &&
        endpoints.every(({ terminating, serving }) => terminating && serving),
    );
    context.check('the long connections go on', servedBy(context, old));
    context.step(`the Deployment is scaled to ${REPLICAS}`);
    await context.own(['scale', DEPLOYMENT, `--replicas=${REPLICAS}`]);
    await context.rollout(DEPLOYMENT);
    const end = Date.now();
    context.step('the old servers end');
    // Long connections end with their servers, not before.
    context.allow(
      'its server ended',
      ({ cut, kind, served = '', at, ms }) => cut && kind !== 'silent' && old.has(served) && at + ms > end,
    );
    await context.until('the old servers are gone', 180, async () => {
      const pods = await context.pods(SERVER_SELECTOR);
      return pods.every(({ name }) => !old.has(name));
    });
  },
};

/** Whether all long connections are open, and none to another server. */
function servedBy(context: TrialContext, pods: ReadonlySet<string>): boolean {
  return Object.values(context.traffic.ticks()).every((ticks) =>
    Object.keys(ticks.at(-1)?.long ?? {}).every((server) => pods.has(server)),
  );
}
