import { cell, table, wrap } from '../../../scripts/markdown.ts';
import { PROXY_TITLES } from '../e2e/page.ts';
import { isOurs } from '../e2e/results.ts';
import type { KeptTrials, TrialResult } from './results.ts';

const COLUMNS = [
  'trial',
  'what was done',
  'proxy',
  'cluster',
  'connections asked',
  'failed',
  'cut',
  'over 1 s',
  'allowed',
  'measured',
  'holds',
  'version',
  'date',
];

/** lab/results/trials.md from lab/results/trials.json. */
export function trialsPage({ trials }: KeptTrials): string {
  const results = trials.length === 0 ? 'No result has been recorded yet.' : table(COLUMNS, trials.map(row));
  return `${[introduction(), results, ...broken(trials)].join('\n\n')}\n`;
}

function introduction(): string {
  return `# Trials

${wrap(`\`make trial\` generates this page. A trial does something to a [test cluster](../cluster/README.md) while traffic goes on, and
counts every connection that fails. The traffic comes from a Pod and from outside of the nodes. It goes to a ClusterIP, to a node
port of each node, and to a node port of each node with \`externalTrafficPolicy: Local\`. The two clients open 50 connections a
second together, each for one HTTP request. They also hold 20 connections and make a request on each every 100 ms.`)}

${wrap(`A connection has _failed_ if it had no complete answer within 5 s. It is _cut_ if it was one of the 20 and ended, or had
no answer for 5 s. A trial fails if there are more of them than it permits, which is none unless its code in
\`lab/cluster/trial/trials/\` states a number. Failures that must occur because of what was done are _allowed_: for example, a
connection ends if its server ends. They are counted separately. With kube-proxy, a trial is only a measurement.`)}`;
}

function row(result: TrialResult): string[] {
  const { overlay, families, nodes, kubernetes } = result;
  return [
    result.trial,
    cell(result.what),
    PROXY_TITLES[result.proxy],
    [kubernetes, families, `${nodes} nodes`, ...(overlay === '' ? [] : [overlay])].join(', '),
    String(result.asked),
    String(result.failed),
    String(result.cut),
    String(result.slow),
    list(Object.entries(result.allowed).map(([because, count]) => `${count}: ${because}`)),
    list(Object.entries(result.measured).map(([what, value]) => `${what}: ${value}`)),
    verdict(result),
    result.version,
    result.start.slice(0, 10),
  ];
}

function list(items: readonly string[]): string {
  return cell(items.join('; '));
}

function verdict({ proxy, wrong }: TrialResult): string {
  if (!isOurs(proxy)) return '';
  return wrong.length === 0 ? 'yes' : '**no**';
}

function broken(trials: readonly TrialResult[]): readonly string[] {
  const lines = trials
    .filter(({ proxy }) => isOurs(proxy))
    .flatMap(({ trial, overlay, wrong }) => wrong.map((what) => wrap(`- ${trial} (${overlay}): ${what}`, '  ')));
  return lines.length === 0 ? [] : ['These trials do not hold:', lines.join('\n')];
}
