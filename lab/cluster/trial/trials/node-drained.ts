import type { TrialContext } from '../context.ts';
import { EndpointWatch } from '../endpoint-watch.ts';
import { type ServersOfNode, awaitGone, awaitServing, checkElsewhere, serversOn } from '../elsewhere.ts';
import { DEPLOYMENT, USUAL_SERVERS } from '../servers.ts';
import type { Trial } from '../trial.ts';
import { atLocalPort, isLocalPort, middleNode } from './node-targets.ts';

/** `kubectl drain`: every Pod of a node moves, except ours. */
export const nodeDrained: Trial = {
  name: 'node-drained',
  what: 'a node of three drained, then uncordoned',
  proxies: ['ours', 'kube-proxy-ipvs', 'kube-proxy-iptables'],
  limits: { failed: 0, cut: 0 },
  settings: ['NODES=3'],
  servers: { replicas: 6 },
  async run(context) {
    const watch = new EndpointWatch(context);
    try {
      await drain(context, watch, await serversOn(context, middleNode(context)));
    } finally {
      watch.end();
    }
  },
};

async function drain(context: TrialContext, watch: EndpointWatch, servers: ServersOfNode): Promise<void> {
  const { node, pods } = servers;
  context.step(`kubectl drain ${node}`);
  const begin = Date.now();
  context.allow(`${node} has no server for its NodePort with externalTrafficPolicy Local`, atLocalPort(node));
  // They serve on for the whole of their preStop hook.
  const ended = begin + USUAL_SERVERS.preStopSeconds * 1000;
  context.allow(
    `its server ended, ${USUAL_SERVERS.preStopSeconds} s after its deletion`,
    ({ cut, served = '', at }) => {
      return cut && pods.includes(served) && at >= ended;
    },
  );
  const draining = context.kubectl(['drain', node, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=280s']);
  const [gone] = await Promise.all([awaitGone(context, watch, servers, begin, 240), draining]);
  await context.wait(10);
  // Servers that end serve there as long as no other is ready on the node (KEP-1669).
  checkElsewhere(context, servers, gone, isLocalPort(node));
  context.step(`kubectl uncordon ${node}, and six more servers`);
  await context.kubectl(['uncordon', node]);
  await context.own(['scale', DEPLOYMENT, '--replicas=12']);
  await awaitServing(context, node, 120);
}
