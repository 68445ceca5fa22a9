import { CASES, type Cell, DESTINATIONS, type MatrixCase, SOURCES, type Source } from './matrix-table.ts';

/** What was seen through one cell. */
export interface Seen {
  readonly cell: Cell;
  /** By "TCP IPv4" and so on. */
  readonly texts: ReadonlyMap<string, string>;
}

const SOURCE_NAMES: Readonly<Record<Source, string>> = {
  'pod-0-1': 'pod of node-0',
  'pod-0-0': 'endpoint A itself (pod of node-0)',
  'pod-1-1': 'pod of node-1',
  'node-0': 'host network of node-0',
  'node-1': 'host network of node-1',
  'client-0': 'outside client',
};

const INTRODUCTION = `# Who reaches what: the traffic matrix

Written by \`test/traffic/matrix.test.ts\` from what packets did, and compared with it on every run; to write it anew, run
that test with \`TEST_UPDATE=1\`.

Two nodes, routed to each other, each with the daemon (\`--cluster-cidr\` set) on the same objects. Endpoint A is a pod of node-0,
B a pod of node-1. The outside client is on the nodes' network; its routes to ClusterIPs, external IPs and load balancer VIPs
lead to node-0. A cell says who answers over two connections, and which source address the endpoint sees: \`kept\` is the client's
own, \`node-0\` an address of that node. *refused* is an error at once, *no answer* none within the time limit. Each cell
holds for TCP, UDP and SCTP over IPv4 and IPv6 alike, unless a line below the table says otherwise.`;

/** @param light the ways that were tried again with a local route in place of an address for each service */
function lightSentence(results: readonly Seen[], light: readonly Seen[]): string {
  const differing = light.filter(({ cell, texts }) => {
    const before = results.find((each) => each.cell === cell);
    return [...texts].some(([kind, text]) => before?.texts.get(kind) !== text);
  });
  const cells = light.reduce((sum, { texts }) => sum + texts.size, 0);
  const asked = `The ${light.length} ways to a ClusterIP (${cells} cells) were tried again in light mode (\`--ipvs-local-route-cidrs\`): `;
  if (differing.length === 0) return `${asked}every one as below.`;
  const ways = differing.map(({ cell }) => `${cell.case.title}, from ${SOURCE_NAMES[cell.source]}`);
  return `${asked}all as below but ${ways.join('; ')}.`;
}

/** docs/traffic-matrix.md from the results of a run, and of one in light mode. */
export function matrixPage(results: readonly Seen[], probes: number, light: readonly Seen[]): string {
  const sections = CASES.map((matrixCase) =>
    section(
      matrixCase,
      results.filter(({ cell }) => cell.case === matrixCase),
    ),
  );
  const cells = results.reduce((sum, { texts }) => sum + texts.size, 0);
  const count = `${results.length} ways, ${cells} cells with protocols and families, ${probes} connections.`;
  return [INTRODUCTION, count, lightSentence(results, light), ...sections].join('\n\n') + '\n';
}

function section(matrixCase: MatrixCase, results: readonly Seen[]): string {
  const destinations = DESTINATIONS.filter((one) => results.some(({ cell }) => cell.destination === one));
  const rows = SOURCES.map((source) => [
    SOURCE_NAMES[source],
    ...destinations.map((destination) => {
      const found = results.find(({ cell }) => cell.source === source && cell.destination === destination);
      return found === undefined ? '' : usual(found);
    }),
  ]);
  const lines = [['from', ...destinations], ['---', ...destinations.map(() => '---')], ...rows];
  const table = lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const notes = [...deviations(results), ...matrixCase.notes].map((note) => `- ${note}`);
  return [`## ${matrixCase.title}`, table, ...(notes.length > 0 ? [notes.join('\n')] : [])].join('\n\n');
}

/** What most protocols and families show. */
function usual({ texts }: Seen): string {
  const counts = new Map<string, number>();
  for (const text of texts.values()) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? '';
}

/** One line for each kind of difference: which protocols and families show what in place of what. */
function deviations(results: readonly Seen[]): string[] {
  const found = new Map<string, Set<string>>();
  for (const seen of results) {
    const most = usual(seen);
    for (const [kind, text] of seen.texts) {
      if (text === most) continue;
      const what = `${text} where the table says ${most}`;
      found.set(what, (found.get(what) ?? new Set()).add(kind));
    }
  }
  return Array.from(found, ([what, kinds]) => `${[...kinds].join(', ')}: ${what}.`);
}
