import path from 'node:path';
import type { ProbeRequest, ProbeResult } from '../bed/agent-protocol.ts';
import { allPods, podGateway } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { formatIp } from '../../src/base/ip.ts';
import { startDaemon } from '../support/daemon.ts';
import { COMPARED_VERSION, builtKubeProxy, startApiServer, startKubeProxy } from '../support/kube-proxy.ts';
import { TEST_MODE } from '../support/mode.ts';
import { address } from '../support/state.ts';
import { ManifestDirectory, POD_PORT, type Protocol, nodeObjects, serviceObjects } from './cluster-objects.ts';
import { answersText } from './matrix-prediction.ts';
import { CASES, type Cell, ENDPOINT_NAMES, type Family, type Source, targetOf } from './matrix-table.ts';

/** IPVS chooses endpoints in turn: two connections show both. */
const LEAST_ROUNDS = 2;
/** In the other modes the choice is random. */
const MOST_ROUNDS = TEST_MODE === 'ipvs' ? LEAST_ROUNDS : 20;
/** For ways of which no connection has succeeded: they are slow. */
const MOST_FAILURES = 4;
/** Where no answer is expected, it is not waited for longer than this. */
const SILENCE_MS = patient(2500);
/** An answer may be late on a busy machine. */
const ANSWER_TIMEOUT_MS = patient(20_000);
const CLUSTER_CIDR = `${allPods.v4},${allPods.v6}`;

/** EPERM is how a host's own datagrams are refused: the one that refuses is the host itself. */
const FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  EPERM: 'refused',
  TIMEOUT: 'no answer',
};

/** A cell with one protocol and family. */
export interface Way {
  readonly cell: Cell;
  readonly protocol: Protocol;
  readonly family: Family;
}

/** Starts a proxy on a node, for the objects of a directory. Resolves when it has programmed them. */
export type StartProxy = (node: Namespace, objects: ManifestDirectory) => Promise<unknown>;

export function ours(flags: readonly string[]): StartProxy {
  return (node, objects) =>
    startDaemon(node, [
      '--ipvs-scheduler=rr',
      `--manifests=${objects.path}`,
      `--cluster-cidr=${CLUSTER_CIDR}`,
      ...flags,
    ]);
}

/** kube-proxy with its default settings, and an API server on each node. */
export const kubeProxy: StartProxy = async (node, objects) => {
  const program = await builtKubeProxy(COMPARED_VERSION);
  if (program === undefined) throw new Error('make matrix PROXY=kube-proxy builds kube-proxy');
  const kubeconfig = path.join(objects.path, `kubeconfig-of-${node.name}`);
  await startApiServer(node, objects.path, kubeconfig);
  if (TEST_MODE === 'userspace') throw new Error('kube-proxy has no userspace mode any more');
  await startKubeProxy(node, program, { mode: TEST_MODE, kubeconfig, clusterCidr: CLUSTER_CIDR });
};

/** The two nodes of the matrix with a proxy on each, their pods, and the outside client. */
export class MatrixBed implements AsyncDisposable {
  readonly bed: Bed;
  readonly #objects: ManifestDirectory;
  /** The node that has an address. */
  readonly #owners = new Map<string, string>();

  private constructor(bed: Bed, objects: ManifestDirectory) {
    this.bed = bed;
    this.#objects = objects;
  }

  static async create(start: StartProxy): Promise<MatrixBed> {
    const objects = await ManifestDirectory.create();
    await objects.write('nodes', nodeObjects(2));
    await objects.write(
      'services',
      CASES.flatMap(({ service }) => serviceObjects(service)),
    );
    const bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 1 });
    const matrix = new MatrixBed(bed, objects);
    for (const [index, node] of [bed.node(0), bed.node(1)].entries()) {
      for (const { v4, v6 } of [node.addresses, podGateway(index)]) {
        for (const text of [v4, v6]) matrix.#owners.set(formatIp(address(text)), node.name);
      }
      // A host sends few refusals a second to one and the same address, and we ask for very many.
      await node.sysctl({ 'net.ipv4.icmp_ratelimit': 0, 'net.ipv6.icmp.ratelimit': 0 });
      const pod = bed.pod(index, 0);
      await Promise.all([pod.serveTcp(POD_PORT), pod.serveUdp(POD_PORT), pod.serveSctp(POD_PORT)]);
      await start(node, objects);
    }
    return matrix;
  }

  namespaceOf(source: Source): Namespace {
    const [kind = '', ...numbers] = source.split('-');
    const [first = 0, second = 0] = numbers.map(Number);
    return kind === 'pod'
      ? this.bed.pod(first, second)
      : kind === 'node'
        ? this.bed.node(first)
        : this.bed.client(first);
  }

  /** Makes connections from one source, and returns the results of each way, in that order. */
  async connect(from: Namespace, ways: readonly Way[]): Promise<readonly (readonly ProbeResult[])[]> {
    const results: ProbeResult[][] = ways.map(() => []);
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const tried = [...ways.entries()].filter(([index, way]) => !isSettled(way, results[index] ?? []));
      const probes = tried.map(([, way]) => probeOf(way));
      for (const [at, result] of (await from.probeAll(probes, 32)).entries()) {
        results[tried[at]?.[0] ?? -1]?.push(result);
      }
    }
    return results;
  }

  /** "A+B kept" and the like, from the results of one way. */
  describe(from: Namespace, way: Way, results: readonly ProbeResult[]): string {
    const asked = targetOf(way.cell.case.service, way.cell.destination, way.family).address;
    const names = new Map([
      [formatIp(address(asked)), 'asked'],
      [formatIp(address(from.addresses[way.family])), 'kept'],
      ...this.#owners,
    ]);
    const endpointsBySource = new Map<string, Set<string>>();
    for (const result of results) {
      if (!result.ok) continue;
      const sourceSeen = formatIp(address(result.sourceSeen));
      const seen = names.get(sourceSeen) ?? sourceSeen;
      const endpoint = ENDPOINT_NAMES[result.answeredBy] ?? result.answeredBy;
      endpointsBySource.set(seen, (endpointsBySource.get(seen) ?? new Set()).add(endpoint));
    }
    const parts = Array.from(endpointsBySource, ([seen, endpoints]) => `${[...endpoints].sort().join('+')} ${seen}`);
    return [...parts.sort(), ...failuresOf(results)].join(', ');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bed[Symbol.asyncDispose]();
    await this.#objects[Symbol.asyncDispose]();
  }
}

/** "pod-0-0 sees 10.201.0.1" and the like: which addresses they saw, where `describe` only says whose. */
export function exactText(results: readonly ProbeResult[]): string {
  const served = results.flatMap((result) =>
    result.ok ? [[result.answeredBy, formatIp(address(result.sourceSeen))] as const] : [],
  );
  return [answersText(served), ...failuresOf(results)].filter((text) => text !== '').join(', ');
}

/** Whether further connections would show nothing new: each endpoint has answered, or a failure stands for it. */
function isSettled({ cell }: Way, results: readonly ProbeResult[]): boolean {
  if (results.length < LEAST_ROUNDS) return false;
  const outcomes = new Set(results.map((result) => (result.ok ? result.answeredBy : result.code)));
  const onlyFailures = results.every(({ ok }) => !ok);
  return outcomes.size >= cell.case.service.endpoints.length || (onlyFailures && results.length >= MOST_FAILURES);
}

function failuresOf(results: readonly ProbeResult[]): ReadonlySet<string> {
  return new Set(results.flatMap((result) => (result.ok ? [] : [FAILURES[result.code] ?? result.code])));
}

function probeOf({ cell, protocol, family }: Way): ProbeRequest {
  return {
    protocol: ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol],
    target: targetOf(cell.case.service, cell.destination, family),
    timeoutMs: cell.expected === 'no answer' ? SILENCE_MS : ANSWER_TIMEOUT_MS,
  };
}
