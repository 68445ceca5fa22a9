import type { TrialContext } from '../context.ts';
import { startKubelet, stopKubelet } from '../../control.ts';
import { EndpointWatch } from '../endpoint-watch.ts';
import { ELSEWHERE_MS, type ServersOfNode, awaitGone, awaitServing, checkElsewhere, serversOn } from '../elsewhere.ts';
import type { Trial } from '../trial.ts';
import { atLocalPort, middleNode } from './node-targets.ts';

const SECONDS = 120;

/** The node and its Pods go on, but the control plane hears nothing of them. */
export const kubeletStopped: Trial = {
  name: 'kubelet-stopped',
  what: `the kubelet of a node of three stopped for ${SECONDS} s`,
  proxies: ['ours', 'kube-proxy-ipvs', 'kube-proxy-iptables'],
  limits: { failed: 0, cut: 0 },
  settings: ['NODES=3'],
  servers: { replicas: 6 },
  async run(context) {
    const watch = new EndpointWatch(context);
    const servers = await serversOn(context, middleNode(context));
    try {
      await withoutKubelet(context, watch, servers);
    } finally {
      watch.end();
    }
  },
};

async function withoutKubelet(context: TrialContext, watch: EndpointWatch, servers: ServersOfNode): Promise<void> {
  const { node } = servers;
  context.step(`the kubelet of ${node} stops`);
  const begin = Date.now();
  let back = Infinity;
  await stopKubelet(context.state, node);
  try {
    const gone = await awaitGone(context, watch, servers, begin, SECONDS);
    context.allow(`${node} has no ready server for its NodePort with externalTrafficPolicy Local`, (failure) => {
      return atLocalPort(node)(failure) && failure.at >= gone && failure.at < back;
    });
    await context.wait(Math.max(0, SECONDS - (Date.now() - begin) / 1000));
    checkElsewhere(context, servers, gone);
    context.step(`the kubelet of ${node} starts`);
  } finally {
    await startKubelet(context.state, node);
  }
  await awaitServing(context, node, 120);
  back = Date.now() + ELSEWHERE_MS;
}
