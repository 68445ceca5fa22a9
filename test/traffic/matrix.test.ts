import { release } from 'node:os';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { runCommand } from '../bed/command.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { COMPARED_VERSION } from '../support/kube-proxy.ts';
import { TEST_MODE } from '../support/mode.ts';
import { MatrixBed, type StartProxy, type Way, exactText, kubeProxy, ours } from './matrix-bed.ts';
import { predicted } from './matrix-prediction.ts';
import {
  type MatrixProxy,
  PROXIES,
  type RunId,
  type Seen,
  cellsOfRun,
  record,
  recordedRuns,
  runOf,
} from './matrix-record.ts';
import { CASES, type Cell, FAMILIES, PROTOCOLS, SOURCES, type Source, cellsOf } from './matrix-table.ts';

jest.setTimeout(patient(900_000));

/** Questions that wait together share one run of iptables-save. The query socket has 16 connections. */
const ASKED_AT_ONCE = 12;

interface Prediction {
  readonly way: string;
  readonly said: string;
  readonly seen: string;
}

interface Run extends RunId {
  readonly what: string;
  readonly start: StartProxy;
  readonly cells: readonly Cell[];
}

/** What the second run is made with, and what it asks for: only ClusterIPs are reached in another way. */
const LIGHT = '--ipvs-local-route-cidrs=10.202.0.0/16,fd00:202::/64';
const ALL = CASES.flatMap(cellsOf);
const CLUSTER_IPS = ALL.filter(({ destination }) => destination === 'ClusterIP');
const OURS = { proxy: 'ours', mode: TEST_MODE } as const;
const KUBE_PROXY: Run = {
  proxy: 'kube-proxy',
  mode: TEST_MODE,
  light: false,
  what: `kube-proxy ${COMPARED_VERSION}`,
  start: kubeProxy,
  cells: ALL,
};
const RUNS_OF_OURS: readonly Run[] = [
  { ...OURS, light: false, what: 'an address for each service', start: ours([]), cells: ALL },
  { ...OURS, light: true, what: 'light mode', start: ours([LIGHT]), cells: CLUSTER_IPS },
].filter(({ mode, light }) => mode === 'ipvs' || !light);
const RUNS = proxyOf(process.env['TEST_PROXY']) === 'ours' ? RUNS_OF_OURS : [KUBE_PROXY];

/** `text` is PROXY of `make matrix`: ours by default. */
function proxyOf(text = ''): MatrixProxy {
  const proxy = PROXIES.find((each) => each === (text === '' ? 'ours' : text));
  if (proxy === undefined) throw new Error(`PROXY is ${PROXIES.join(' or ')}, not ${text}`);
  return proxy;
}

/** Every way in, with packets: for each cell of the table, protocol and family, who answers and as whom the client is seen. */
describe.each(RUNS)('the traffic matrix, with $what', (run) => {
  let matrix: MatrixBed;
  const results: Seen[] = [];
  let connections = 0;
  // Only in ipvs mode, `explain --from` says what becomes of a packet.
  const explained = run.proxy === 'ours' && run.mode === 'ipvs';

  beforeAll(async () => {
    matrix = await MatrixBed.create(run.start);
  });

  afterAll(() => matrix[Symbol.asyncDispose]());

  async function predictions(from: Namespace, ways: readonly Way[]): Promise<readonly string[]> {
    const said: string[] = [];
    for (let begin = 0; begin < ways.length; begin += ASKED_AT_ONCE) {
      const asked = ways.slice(begin, begin + ASKED_AT_ONCE);
      const replies = asked.map(({ cell, protocol, family }) =>
        predicted(matrix.bed, cell, from.addresses, protocol, family),
      );
      said.push(...(await Promise.all(replies)));
    }
    return said;
  }

  /** Keeps what is seen of each cell, and returns it beside what `explain --from` said before. */
  async function probeFrom(source: Source): Promise<readonly Prediction[]> {
    const from = matrix.namespaceOf(source);
    const cells = run.cells.filter((cell) => cell.source === source);
    const ways: Way[] = cells.flatMap((cell) =>
      PROTOCOLS.flatMap((protocol) => FAMILIES.map((family) => ({ cell, protocol, family }))),
    );
    const said = explained ? await predictions(from, ways) : [];
    const answers = await matrix.connect(from, ways);
    connections += answers.flat().length;
    for (const cell of cells) {
      const texts = [...ways.entries()].flatMap(([index, way]) =>
        way.cell === cell ? [[kindOf(way), matrix.describe(from, way, answers[index] ?? [])] as const] : [],
      );
      results.push({ cell, texts: new Map(texts) });
    }
    return ways.flatMap((way, index) => {
      const prediction = { way: nameOf(way), said: said[index] ?? '', seen: exactText(answers[index] ?? []) };
      return explained ? [prediction] : [];
    });
  }

  // In ipvs mode with ours, `explain --from` must have said so before.
  test.each(SOURCES)('from %s', async (source) => {
    const asked = await probeFrom(source);
    expect(asked.map(({ way, said }) => `${way}: ${said}`)).toEqual(asked.map(({ way, seen }) => `${way}: ${seen}`));
    const [seen, expected]: [string[], string[]] = [[], []];
    for (const { cell, texts } of results.filter((result) => result.cell.source === source)) {
      for (const [kind, text] of texts) {
        const way = `${cell.case.title}: ${cell.destination}, ${kind}: `;
        seen.push(way + text);
        // What kube-proxy shows is compared with the record below.
        expected.push(way + (run.proxy === 'ours' ? cell.expected : text));
      }
    }
    expect(seen.length).toBeGreaterThan(0);
    expect(seen).toEqual(expected);
  });

  test('lab/results/traffic-matrix.json has what was seen', async () => {
    const cells = cellsOfRun(results);
    const { proxy, mode, light } = run;
    if (process.env['TEST_UPDATE'] === '1') {
      const version = proxy === 'ours' ? await ourVersion() : COMPARED_VERSION;
      record({ proxy, mode, light, version, kernel: release(), connections, cells });
    }
    expect(cells).toEqual(runOf(recordedRuns(), run)?.cells);
  });
});

function kindOf({ protocol, family }: Way): string {
  return `${protocol} IP${family}`;
}

function nameOf(way: Way): string {
  return `${way.cell.case.title}: ${way.cell.destination}, ${kindOf(way)}`;
}

/** "0.2.0 at 0711086". */
async function ourVersion(): Promise<string> {
  const { stdout } = await runCommand([process.execPath, 'build/kube-ipvs-proxy.mjs', '--version']);
  const [, version, commit] = /v(\S+) \(commit (\w{7})/.exec(stdout) ?? [];
  if (version === undefined) throw new Error(`no version: ${stdout}`);
  return `${version} at ${commit}`;
}
