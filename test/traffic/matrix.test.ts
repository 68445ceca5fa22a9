import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProbeRequest, ProbeResult } from '../bed/agent-protocol.ts';
import { podGateway } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { formatIp } from '../../src/base/ip.ts';
import { startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { address } from '../support/state.ts';
import { ManifestDirectory, POD_PORT, type Protocol, nodeObjects, serviceObjects } from './cluster-objects.ts';
import { type Seen, matrixPage } from './matrix-page.ts';
import { answersText, predicted } from './matrix-prediction.ts';
import {
  CASES,
  type Cell,
  ENDPOINT_NAMES,
  FAMILIES,
  type Family,
  PROTOCOLS,
  SOURCES,
  type Source,
  cellsOf,
  targetOf,
} from './matrix-table.ts';

jest.setTimeout(patient(480_000));

const PAGE = 'docs/traffic-matrix.md';
const WRITTEN = 'build/test/traffic-matrix.md';
/** Two connections: scheduler rr then has shown both endpoints. */
const ROUNDS = 2;
/** In nftables mode the choice is random, and ways that have not yet shown all endpoints are tried further. */
const MOST_ROUNDS = TEST_MODE === 'ipvs' ? ROUNDS : 20;
/** Where no answer is expected, it is not waited for longer than this. */
const SILENCE_MS = patient(2500);
/** An answer may be late on a busy machine. */
const ANSWER_TIMEOUT_MS = patient(20_000);
/** Questions that wait together share one run of iptables-save. The query socket has 16 connections. */
const ASKED_AT_ONCE = 12;

/** EPERM is how a host's own datagrams are refused: the one that refuses is the host itself. */
const FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  EPERM: 'refused',
  TIMEOUT: 'no answer',
};

interface Way {
  readonly cell: Cell;
  readonly protocol: Protocol;
  readonly family: Family;
}

interface Prediction {
  readonly way: string;
  readonly said: string;
  readonly seen: string;
}

/** What the second run is made with, and what it asks for: only ClusterIPs are reached in another way. */
const LIGHT = '--ipvs-local-route-cidrs=10.202.0.0/16,fd00:202::/64';
const ALL = CASES.flatMap(cellsOf);
const RUNS: readonly (readonly [what: string, flags: readonly string[], cells: readonly Cell[]])[] = [
  ['an address for each service', [], ALL],
  ...(TEST_MODE === 'ipvs'
    ? [['light mode', [LIGHT], ALL.filter(({ destination }) => destination === 'ClusterIP')] as const]
    : []),
];
/** What every run saw, in their order. */
const RESULTS: readonly Seen[][] = RUNS.map(() => []);

/** Every way in, with packets: for each cell of the table, protocol and family, who answers and as whom the client is seen. */
describe.each(RUNS)('the traffic matrix, with %s', (what, flags, wanted) => {
  let bed: Bed;
  let directory: ManifestDirectory;
  const owners = new Map<string, string>();
  const results = RESULTS[RUNS.findIndex(([each]) => each === what)] ?? [];

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(2));
    await directory.write(
      'services',
      CASES.flatMap(({ service }) => serviceObjects(service)),
    );
    bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 1 });
    for (const [index, node] of [bed.node(0), bed.node(1)].entries()) {
      for (const { v4, v6 } of [node.addresses, podGateway(index)]) {
        for (const text of [v4, v6]) owners.set(formatIp(address(text)), node.name);
      }
      // A host sends few refusals a second to one and the same address, and we ask for very many.
      await node.sysctl({ 'net.ipv4.icmp_ratelimit': 0, 'net.ipv6.icmp.ratelimit': 0 });
      const pod = bed.pod(index, 0);
      await Promise.all([pod.serveTcp(POD_PORT), pod.serveUdp(POD_PORT), pod.serveSctp(POD_PORT)]);
      await startDaemon(node, [
        '--ipvs-scheduler=rr',
        `--manifests=${directory.path}`,
        '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
        ...flags,
      ]);
    }
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  function namespaceOf(source: Source): Namespace {
    const [kind = '', ...numbers] = source.split('-');
    const [first = 0, second = 0] = numbers.map(Number);
    return kind === 'pod' ? bed.pod(first, second) : kind === 'node' ? bed.node(first) : bed.client(first);
  }

  /** "A+B kept" and the like, from the answers to one way. */
  function describeAnswers(from: Namespace, answers: readonly ProbeResult[]): string {
    const endpointsBySource = new Map<string, Set<string>>();
    const failures = new Set<string>();
    for (const answer of answers) {
      if (!answer.ok) {
        failures.add(FAILURES[answer.code] ?? answer.code);
        continue;
      }
      const sourceSeen = formatIp(address(answer.sourceSeen));
      const own = [from.addresses.v4, from.addresses.v6].some((text) => formatIp(address(text)) === sourceSeen);
      const seen = owners.get(sourceSeen) ?? (own ? 'kept' : sourceSeen);
      const endpoint = ENDPOINT_NAMES[answer.answeredBy] ?? answer.answeredBy;
      endpointsBySource.set(seen, (endpointsBySource.get(seen) ?? new Set()).add(endpoint));
    }
    const parts = Array.from(endpointsBySource, ([seen, endpoints]) => `${[...endpoints].sort().join('+')} ${seen}`);
    return [...parts.sort(), ...failures].join(', ');
  }

  /** Returns what `explain --from` said of each way, and what was seen. */
  async function probeFrom(source: Source): Promise<readonly Prediction[]> {
    const from = namespaceOf(source);
    const cells = wanted.filter((cell) => cell.source === source);
    const ways: Way[] = cells.flatMap((cell) =>
      PROTOCOLS.flatMap((protocol) => FAMILIES.map((family) => ({ cell, protocol, family }))),
    );
    // First what should happen, and then what does.
    const said: string[] = [];
    // In nftables mode, explain does not say it.
    for (let begin = 0; TEST_MODE === 'ipvs' && begin < ways.length; begin += ASKED_AT_ONCE) {
      const asked = ways.slice(begin, begin + ASKED_AT_ONCE);
      const replies = asked.map(({ cell, protocol, family }) => predicted(bed, cell, from.addresses, protocol, family));
      said.push(...(await Promise.all(replies)));
    }
    const answers: ProbeResult[][] = ways.map(() => []);
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const tried = [...ways.entries()].filter(
        ([index, { cell }]) => round < ROUNDS || describeAnswers(from, answers[index] ?? []) !== cell.expected,
      );
      const probes = tried.map(([, { cell, protocol, family }]): ProbeRequest => {
        const target = targetOf(cell.case.service, cell.destination, family);
        const timeoutMs = cell.expected === 'no answer' ? SILENCE_MS : ANSWER_TIMEOUT_MS;
        return { protocol: toTransport(protocol), target, timeoutMs };
      });
      for (const [at, answer] of (await from.probeAll(probes, 32)).entries()) {
        const index = tried[at]?.[0];
        if (index !== undefined) answers[index]?.push(answer);
      }
    }
    for (const cell of cells) {
      const texts = new Map<string, string>();
      for (const [index, way] of ways.entries()) {
        const kind = `${way.protocol} ${way.family === 'v4' ? 'IPv4' : 'IPv6'}`;
        if (way.cell === cell) texts.set(kind, describeAnswers(from, answers[index] ?? []));
      }
      results.push({ cell, texts });
    }
    return ways.map(({ cell, protocol, family }, index) => {
      const seen = exactAnswers(answers[index] ?? []);
      const way = `${cell.case.title}: ${cell.destination}, ${protocol} IP${family}`;
      return { way, said: TEST_MODE === 'ipvs' ? (said[index] ?? '') : seen, seen };
    });
  }

  /** "pod-0-0 sees 10.201.0.1" and the like: which addresses they saw, where the page only says whose. */
  function exactAnswers(answers: readonly ProbeResult[]): string {
    const failures = new Set(answers.flatMap((answer) => (answer.ok ? [] : [FAILURES[answer.code] ?? answer.code])));
    const served = answers.flatMap((answer) =>
      answer.ok ? [[answer.answeredBy, formatIp(address(answer.sourceSeen))] as const] : [],
    );
    return [answersText(served), ...failures].filter((text) => text !== '').join(', ');
  }

  test.each(SOURCES)('from %s, and explain --from said so before', async (source) => {
    const predictions = await probeFrom(source);
    expect(predictions.map(({ way, said }) => `${way}: ${said}`)).toEqual(
      predictions.map((prediction) => `${prediction.way}: ${prediction.seen}`),
    );
    const [seen, expected]: [string[], string[]] = [[], []];
    for (const { cell, texts } of results.filter((result) => result.cell.source === source)) {
      for (const [kind, text] of texts) {
        const way = `${cell.case.title}: ${cell.destination}, ${kind}: `;
        seen.push(way + text);
        expected.push(way + cell.expected);
      }
    }
    expect(seen.length).toBeGreaterThan(0);
    expect(seen).toEqual(expected);
  });
});

// It is the page of ipvs mode.
if (TEST_MODE === 'ipvs') test(`${PAGE} equals what was measured`, comparePage);

async function comparePage(): Promise<void> {
  const [results = [], light = []] = RESULTS;
  const probes = results.reduce((sum, { texts }) => sum + texts.size * ROUNDS, 0);
  const page = matrixPage(results, probes, light);
  await mkdir('build/test', { recursive: true });
  await writeFile(WRITTEN, page);
  if (process.env['TEST_UPDATE'] === '1') await writeFile(PAGE, page);
  expect(await readFile(PAGE, 'utf8')).toBe(page);
}

function toTransport(protocol: Protocol): ProbeRequest['protocol'] {
  return ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol];
}
