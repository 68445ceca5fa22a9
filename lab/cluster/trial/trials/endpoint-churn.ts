import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { percentile } from '../../../bench/measure.ts';
import { NODE_LOGS } from '../client-pod.ts';
import type { ChurnOrder, ChurnResult } from '../churn/order.ts';
import type { TrialContext } from '../context.ts';
import type { Trial } from '../trial.ts';

const PROGRAM = path.resolve(import.meta.dirname, '../churn/main.ts');
const SHAPE = { services: 200, endpoints: 10, writesPerSecond: 10, seconds: 60 } as const;

/** How soon a node's kernel has what was written to the API server. */
export const endpointChurn: Trial = {
  name: 'endpoint-churn',
  what:
    `${SHAPE.services} Services with ${SHAPE.endpoints} endpoints that are API objects only; ` +
    `${SHAPE.writesPerSecond} writes a second replace an endpoint`,
  proxies: ['ours', 'kube-proxy-ipvs'],
  limits: { failed: 0, cut: 0 },
  run: churn,
};

async function churn(context: TrialContext): Promise<void> {
  const { services, endpoints, writesPerSecond, seconds } = SHAPE;
  const [node = { name: '' }] = context.state.nodes;
  const file = (suffix: string): string => `churn-${Date.now()}${suffix}`;
  const [orderFile, resultFile] = [file('.order'), file('.result')];
  const logs = path.join(context.folder.logs, node.name);
  const order: ChurnOrder = {
    ...(await credentials(context)),
    ...SHAPE,
    namespace: context.namespace,
    output: path.join(NODE_LOGS, resultFile),
  };
  await writeFile(path.join(logs, orderFile), JSON.stringify(order), { mode: 0o600 });
  context.step(`${services} Services with ${endpoints} endpoints each, then ${writesPerSecond} writes a second`);
  await context.node(node.name, `${process.execPath} ${PROGRAM} ${path.join(NODE_LOGS, orderFile)}`);
  const result = JSON.parse(await readFile(path.join(logs, resultFile), 'utf8')) as ChurnResult;
  const { fillMs, latencies, lost, skipped, longestLookMs } = result;
  context.say(
    `${latencies.length} writes were seen in the kernel, ${lost} were not, ${skipped} were skipped; filled in ${fillMs} ms; ` +
      `longest time between two looks at the kernel: ${longestLookMs} ms`,
  );
  context.check('every write reaches the kernel', lost === 0);
  context.check(`9 of 10 writes take place (${latencies.length})`, latencies.length >= 0.9 * writesPerSecond * seconds);
  if (latencies.length === 0) return;
  const ms = (values: readonly number[], percent: number): string => `${Math.round(percentile(values, percent))} ms`;
  for (const percent of [50, 99]) {
    context.measure(`write to kernel, p${percent}`, ms(latencies, percent));
    context.measure(`API server's answer to kernel, p${percent}`, ms(result.afterAnswer, percent));
  }
  context.measure('writes', String(latencies.length));
  context.measure('all Services created until in the kernel', `${(fillMs / 1000).toFixed(1)} s`);
}

/** Of the cluster's administrator. */
async function credentials(
  context: TrialContext,
): Promise<Pick<ChurnOrder, 'server' | 'authority' | 'certificate' | 'key'>> {
  const { clusters, users } = JSON.parse(await context.kubectl(['config', 'view', '--raw', '--output=json'])) as {
    clusters: readonly { cluster: { server: string; 'certificate-authority-data': string } }[];
    users: readonly { user: { 'client-certificate-data': string; 'client-key-data': string } }[];
  };
  const [cluster] = clusters;
  const [user] = users;
  if (cluster === undefined || user === undefined) throw new Error('the kubeconfig names no cluster and no user');
  return {
    server: cluster.cluster.server,
    authority: cluster.cluster['certificate-authority-data'],
    certificate: user.user['client-certificate-data'],
    key: user.user['client-key-data'],
  };
}
