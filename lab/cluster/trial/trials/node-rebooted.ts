import type { TrialContext } from '../context.ts';
import { start, stop } from '../../control.ts';
import { EndpointWatch } from '../endpoint-watch.ts';
import { ELSEWHERE_MS, type ServersOfNode, awaitGone, awaitServing, checkElsewhere, serversOn } from '../elsewhere.ts';
import { OurPods } from '../our-pods.ts';
import type { Trial } from '../trial.ts';
import { atNode, middleNode } from './node-targets.ts';

/** A node loses its power and comes back. */
export const nodeRebooted: Trial = {
  name: 'node-rebooted',
  what: 'a node of three stopped at once (its kernel killed), and started when its servers were replaced by others',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  settings: ['NODES=3'],
  servers: { replicas: 6 },
  async run(context) {
    const watch = new EndpointWatch(context);
    const servers = await serversOn(context, middleNode(context));
    try {
      await reboot(context, watch, servers);
    } finally {
      watch.end();
    }
  },
};

async function reboot(context: TrialContext, watch: EndpointWatch, servers: ServersOfNode): Promise<void> {
  const { node, pods } = servers;
  const ours = new OurPods(context);
  const started = await ours.startedAt(node);
  let gone = Infinity;
  let back = Infinity;
  context.allow(`${node} is away, and so are its addresses`, (failure) => atNode(node)(failure) && failure.at < back);
  context.allow(`its server is away`, ({ cut, served = '' }) => cut && pods.includes(served));
  context.allow(
    `begun before the EndpointSlice told that the servers of ${node} are away, or within 2 s`,
    (failure) => {
      return !failure.cut && failure.at < gone + ELSEWHERE_MS;
    },
  );
  context.step(`${node} stops at once`);
  const begin = Date.now();
  await stop(context.state, node, 'KILL');
  let boot: number;
  try {
    gone = await awaitGone(context, watch, servers, begin, 180);
    await context.wait(20);
    checkElsewhere(context, servers, gone);
    context.step(`${node} starts`);
  } finally {
    boot = Date.now();
    await start(context.state, node);
  }
  await context.until(
    `our Pod on ${node} was started again`,
    300,
    async () => (await ours.startedAt(node)) !== started,
  );
  await ours.awaitAll();
  context.measure(`until our Pod on ${node} is ready again`, `${(Date.now() - boot) / 1000} s`);
  await awaitServing(context, node, 300);
  back = Date.now() + ELSEWHERE_MS;
  context.step(`${node} is back`);
  await context.wait(20);
}
