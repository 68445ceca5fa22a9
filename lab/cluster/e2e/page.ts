import { cell, table, wrap } from '../../../scripts/markdown.ts';
import type { Reason } from './reasons.ts';
import { reasonFor } from './reasons.ts';
import { E2E_PROXIES, type E2eProxy, type Kept, type KeptResult, type Run } from './results.ts';

export const PROXY_TITLES: Readonly<Record<E2eProxy, string>> = {
  ours: 'ours',
  'ours-nftables': 'ours nftables',
  'ours-iptables': 'ours iptables',
  'kube-proxy-ipvs': 'kube-proxy ipvs',
  'kube-proxy-iptables': 'kube-proxy iptables',
  'kube-proxy-nftables': 'kube-proxy nftables',
};

/** A result with its run. */
interface Placed {
  readonly result: KeptResult;
  readonly run: Run;
}

/** The page, and what keeps it from being complete. */
export interface Page {
  readonly text: string;
  /** Results that did not pass and have no reason, as `PROXY: SPEC: MESSAGE`. */
  readonly unexplained: readonly string[];
}

/** lab/results/e2e.md from lab/results/e2e.json. */
export function e2ePage({ runs, results }: Kept, reasons: readonly Reason[]): Page {
  const byStart = new Map(runs.map((run) => [run.start, run]));
  const placed = results.flatMap((result) => {
    const run = byStart.get(result.run);
    return run === undefined ? [] : [{ result, run }];
  });
  const clusters = [...new Set(placed.map(({ run }) => clusterTitle(run)))].toSorted();
  const sections = clusters.map((title) =>
    section(
      title,
      placed.filter(({ run }) => clusterTitle(run) === title),
      reasons,
    ),
  );
  const unexplained = placed
    .filter(({ result, run }) => result.outcome !== 'passed' && reasonFor(reasons, result, run.proxy) === undefined)
    .map(({ result, run }) => `${run.proxy}: ${result.spec}: ${result.message}`);
  return { text: `${[introduction(), ...sections].join('\n\n')}\n`, unexplained };
}

function introduction(): string {
  return `# Upstream's e2e specs

${wrap(`\`make e2e\` generates this page. It runs Kubernetes' own \`e2e.test\` in a [test cluster](../cluster/README.md). Each node of
the cluster has its own kernel (User-Mode Linux), kubelet and containerd. The same specs can run with kube-ipvs-proxy ("ours") and
with kube-proxy. \`make e2e\` excludes specs whose own labels say that they are slow, serial, disruptive or flaky. It also
excludes specs of features that a cluster may lack. Those of load balancers run with
\`LOAD_BALANCER=yes\` and \`FOCUS=LoadBalancers\`. \`FOCUS=\` selects specs, and \`PROXY=\` selects the service proxy. A partial run updates only the rows of the specs that it ran. An empty cell means that the spec has not run with
that proxy. \`passed 3x\` means that the spec passed in the last three runs, in a row; the seconds are those of the last one.`)}`;
}

function clusterTitle({ kubernetes, families }: Run): string {
  return `Kubernetes ${kubernetes}, ${families}`;
}

function section(title: string, placed: readonly Placed[], reasons: readonly Reason[]): string {
  const specs = [...new Set(placed.map(({ result }) => result.spec))];
  const rows = specs.map((spec) => {
    const ofSpec = placed.filter(({ result }) => result.spec === spec);
    return [cell(spec.replace(/^\[sig-network\] /, '')), ...E2E_PROXIES.map((proxy) => outcomeCell(ofSpec, proxy))];
  });
  return [
    `## ${title}`,
    table(
      SUMMARY_COLUMNS,
      E2E_PROXIES.flatMap((proxy) => summaryRow(placed, proxy)),
    ),
    ...reasonList(placed, reasons),
    table(['spec (seconds)', ...E2E_PROXIES.map((proxy) => PROXY_TITLES[proxy])], rows),
  ].join('\n\n');
}

const SUMMARY_COLUMNS = ['proxy', 'passed', 'failed', 'skipped', 'versions', 'kernel of the nodes', 'dates'];

function summaryRow(placed: readonly Placed[], proxy: E2eProxy): string[][] {
  const own = placed.filter(({ run }) => run.proxy === proxy);
  if (own.length === 0) return [];
  const count = (outcome: string): string => String(own.filter(({ result }) => result.outcome === outcome).length);
  const distinct = (values: readonly string[]): string => [...new Set(values)].toSorted().join(', ');
  return [
    [
      PROXY_TITLES[proxy],
      count('passed'),
      count('failed'),
      count('skipped'),
      distinct(own.map(({ run }) => run.version)),
      distinct(own.map(({ run }) => run.kernel)),
      distinct(own.map(({ run }) => run.start.slice(0, 10))),
    ],
  ];
}

function outcomeCell(ofSpec: readonly Placed[], proxy: E2eProxy): string {
  const result = ofSpec.find(({ run }) => run.proxy === proxy)?.result;
  if (result === undefined) return '';
  const seconds = Math.round(result.seconds);
  if (result.outcome === 'skipped') return 'skipped';
  if (result.outcome === 'failed') return `**failed** (${seconds})`;
  const passes = result.passesInARow ?? 1;
  return passes === 1 ? `passed (${seconds})` : `passed ${passes}x (${seconds})`;
}

/** One line for each spec and outcome that is not a pass. Proxies with the same reason share it. */
function reasonList(placed: readonly Placed[], reasons: readonly Reason[]): string[] {
  const proxiesByText = new Map<string, string[]>();
  for (const { result, run } of placed) {
    if (result.outcome === 'passed') continue;
    const because = reasonFor(reasons, result, run.proxy)?.because ?? 'no reason is known yet';
    const text = `${result.outcome}: ${result.spec.replace(/^\[sig-network\] /, '')}, because ${because}`;
    proxiesByText.set(text, [...(proxiesByText.get(text) ?? []), PROXY_TITLES[run.proxy]]);
  }
  if (proxiesByText.size === 0) return [];
  const lines = [...proxiesByText].map(([text, proxies]) => wrap(`- ${proxies.join(', ')}: ${escaped(text)}`, '  '));
  return ['These specs did not pass:', lines.join('\n')];
}

/** Brackets would be links, and asterisks emphasis. */
function escaped(text: string): string {
  return text.replaceAll(/[[\]*_<]/g, String.raw`\$&`);
}
