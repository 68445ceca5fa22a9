import { ProxyHealth } from '../../src/observe/health.ts';
import { type AnswererOptions, answerers } from '../../src/daemon/questions/answerers.ts';
import { KnownLeftovers } from '../../src/daemon/modes/known-leftovers.ts';
import { History } from '../../src/daemon/questions/history.ts';
import type { Answerer } from '../../src/daemon/questions/question-handler.ts';
import type { ServerState } from '../../src/kube/api/api-client.ts';
import type { WatchState } from '../../src/observe/api-observer.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { configOf } from './config.ts';
import type { Reconciling } from './reconciling.ts';

/** What the query socket of this daemon answers, with the parts that a test may change. */
export function questionsOf(
  kernel: Kernel,
  run: Reconciling,
  isStarting = false,
  shadow?: AnswererOptions['shadow'],
  silentEndpoints?: AnswererOptions['silentEndpoints'],
) {
  const history = new History(run.clock, kernel.mode);
  const health = new ProxyHealth(60_000, 'node-a');
  health.nodeSeen({ deleting: false, taintKeys: [] });
  const watches = new Map<string, WatchState>();
  const apiServers: ServerState[] = [];
  const knownLeftovers = new KnownLeftovers();
  for (const kind of ['rules of other modes', 'ipvs mode'] as const) knownLeftovers.remove(kind);
  const answers: Readonly<Record<string, Answerer>> = answerers({
    node: 'node-a',
    config: configOf(`--proxy-mode=${kernel.mode}`),
    metrics: { expose: () => Promise.resolve([Buffer.from('kubeipvs_objects 1\n')]) },
    mode: kernel.mode,
    families: [4, 6],
    iptables: 'nft',
    scheduler: 'lc',
    configuration: '0123456789ab',
    source: 'https://10.0.0.1:6443',
    apiServers: () => apiServers,
    kernel,
    health,
    watches,
    knownLeftovers,
    cluster: run.cluster,
    history,
    clock: run.clock,
    reconciler: () => (isStarting ? undefined : run.reconciler),
    ...(shadow === undefined ? {} : { shadow }),
    ...(silentEndpoints === undefined ? {} : { silentEndpoints }),
  });
  const ask = async (path: string): Promise<object> => {
    const [name = '', query] = path.split('?');
    const answerer = answers[name];
    if (answerer === undefined) throw new Error(path);
    return answerer(new URLSearchParams(query), new AbortController().signal, performance.now());
  };
  return { ask, history, health, watches, apiServers, knownLeftovers };
}
