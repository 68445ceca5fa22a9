import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../../test/bed/command.ts';
import { PLANS } from '../addresses.ts';
import type { Say } from '../cluster.ts';
import { type E2eProxy, isOurs } from '../e2e/results.ts';
import { buildPrograms } from '../build.ts';
import { cacheOf, clusterFolder } from '../folders.ts';
import { kubectlFor } from '../kubectl.ts';
import { ourVersion } from '../our-version.ts';
import type { ClusterState } from '../state-file.ts';
import { clientPod } from './client-pod.ts';
import type { Counts, Target } from './client/lines.ts';
import { TrialContext } from './context.ts';
import { readTrials } from './files.ts';
import { failuresByStep, judge } from './judge.ts';
import { type TrialResult, limitsOfKubeProxy } from './results.ts';
import {
  DEPLOYMENT,
  type ServedService,
  type Servers,
  USUAL_SERVERS,
  serverObjects,
  targetsOf,
  targetsOfPod,
} from './servers.ts';
import { SHARE, Traffic } from './traffic.ts';
import type { Limits, Trial } from './trial.ts';

const CLEAN_SECONDS = 5;
const CLEAN_LIMIT_SECONDS = 180;
/** How long traffic goes on after the last step. */
const AFTER_SECONDS = 15;

/** Runs a trial against a cluster that is up. It removes what it made there. */
export async function runTrial(trial: Trial, state: ClusterState, proxy: E2eProxy, say: Say): Promise<TrialResult> {
  const limits = limitsOf(trial, state, proxy);
  await buildPrograms(state.kubernetes, cacheOf(state.kubernetes), trial.programs ?? [], say);
  const start = new Date();
  const bed = new TrialBed(trial, state, say);
  try {
    const traffic = await bed.startTraffic({ ...USUAL_SERVERS, ...trial.servers }, start);
    const context = new TrialContext(state, proxy, bed.namespace, traffic, say);
    await traffic.awaitClean(CLEAN_SECONDS, CLEAN_LIMIT_SECONDS);
    const begin = Date.now();
    const before = traffic.counts();
    if (before.failed + before.cut > 0) {
      context.say(`until the traffic was clean, ${before.failed} connections failed and ${before.cut} were cut`);
    }
    context.step('traffic only');
    await context.wait(CLEAN_SECONDS);
    await trial.run(context);
    context.step('afterwards');
    await context.wait(AFTER_SECONDS);
    return await finish(trial, context, { start, begin, before, limits });
  } finally {
    await bed.remove();
  }
}

/** How a trial began. */
interface Begin {
  /** When it was started, and when its traffic was clean: milliseconds since 1970. */
  readonly start: Date;
  readonly begin: number;
  /** What had been counted when the traffic was clean. */
  readonly before: Counts;
  readonly limits: Limits;
}

/** Stops the traffic, judges and prints what came out. */
async function finish(
  trial: Trial,
  context: TrialContext,
  { start, begin, before, limits }: Begin,
): Promise<TrialResult> {
  const { traffic, steps, allowances, checks, state } = context;
  const proxy = trial.about?.proxy ?? context.proxy;
  const expected = (2 * SHARE.newPerSecond * (Date.now() - begin)) / 1000;
  const unfinished = await traffic.stop();
  for (const client of unfinished) context.check(`the client in the ${client} writes its last line`, false);
  const evidence = {
    steps,
    asked: traffic.counts().asked - before.asked,
    unlisted: traffic.counts().unlisted,
    failures: traffic.failures(begin),
    slow: traffic.slow(begin),
    allowances,
    checks,
    limits,
    expected: Math.round(expected),
  };
  const verdict = judge(evidence);
  for (const { step, text, count, from, to } of failuresByStep(steps, evidence.failures, allowances)) {
    context.say(`  during "${step}", ${from} to ${to} s after its begin: ${count} times ${text}`);
  }
  for (const { client, target, ms, at, served } of traffic.resumed()) {
    context.say(
      `  resumed: ${client} to ${target}, asked at ${new Date(at).toISOString()}, after ${ms} ms by ${served}`,
    );
  }
  const lag = Object.entries(traffic.ticks()).map(
    ([client, ticks]) => `${client} ${Math.max(...ticks.map(({ lagMs }) => lagMs))} ms`,
  );
  context.say(`longest time that a client could not run: ${lag.join(', ')}`);
  const { wrong, ...numbers } = verdict;
  return {
    trial: trial.name,
    what: trial.what,
    proxy,
    version: isOurs(proxy) ? ourVersion() : state.kubernetes,
    overlay: trial.about?.overlay ?? (isOurs(proxy) ? await overlayOf(context) : ''),
    kubernetes: state.kubernetes,
    families: state.families.join(', '),
    nodes: state.nodes.length,
    kernel: await context.kubectl(['get', 'nodes', '--output=jsonpath={.items[0].status.nodeInfo.kernelVersion}']),
    start: `${start.toISOString().slice(0, 19)}Z`,
    seconds: Math.round((Date.now() - begin) / 1000),
    ...numbers,
    measured: context.measured,
    wrong,
  };
}

function limitsOf({ name, limits }: Trial, state: ClusterState, proxy: E2eProxy): Limits {
  if (limits !== 'as kube-proxy') return limits;
  if (!isOurs(proxy)) return { failed: Infinity, cut: Infinity };
  const found = limitsOfKubeProxy(readTrials(), name, state);
  if (found === undefined) throw new Error(`first run make trial TRIAL=${name} PROXY=kube-proxy-ipvs`);
  return found;
}

/** The restricted overlay has an init container. */
async function overlayOf(context: TrialContext): Promise<string> {
  const initContainers = '--output=jsonpath={.spec.template.spec.initContainers[*].name}';
  const names = await context.kubectl([
    '--namespace=kube-system',
    'get',
    'daemonset',
    'kube-ipvs-proxy',
    '--ignore-not-found',
    initContainers,
  ]);
  return names === '' ? 'privileged' : 'restricted';
}

/** Servers, Services, clients and routes of a trial. */
class TrialBed {
  readonly namespace: string;
  readonly #state: ClusterState;
  readonly #say: Say;
  #traffic: Traffic | undefined;

  constructor(trial: Trial, state: ClusterState, say: Say) {
    this.namespace = `trial-${trial.name}`;
    this.#state = state;
    this.#say = say;
  }

  async startTraffic(servers: Servers, start: Date): Promise<Traffic> {
    const images = await this.#images();
    await this.#kubectl(['delete', 'namespace', this.namespace, '--ignore-not-found', '--timeout=240s']);
    await this.#kubectl(['create', 'namespace', this.namespace]);
    await this.#apply(serverObjects(this.namespace, images.agnhost, this.#state.families.length, servers));
    await this.#own(['rollout', 'status', DEPLOYMENT, '--timeout=240s']);
    this.#say(`${servers.replicas} servers are ready in the namespace ${this.namespace}`);
    const targets = await this.#targets();
    await this.#routes('replace');
    // A new folder for each run: the node would remember what an old one had.
    const folder = `${this.namespace}-${start.getTime()}`;
    const [first = { name: '' }] = this.#state.nodes;
    const { logs } = clusterFolder(this.#state.cluster);
    const folders = { pod: path.join(logs, first.name, folder), host: path.join(logs, folder) };
    for (const each of Object.values(folders)) await mkdir(each, { recursive: true });
    const ofPod = targetsOfPod(targets, first.name, this.#state);
    const order = { client: 'Pod', targets: ofPod, ...SHARE };
    await this.#apply(clientPod(this.namespace, images.ours, first.name, folder, order));
    await this.#own(['wait', '--for=condition=Ready', 'pod/client', '--timeout=240s']);
    this.#traffic = new Traffic(this.#state.netns, targets, folders);
    this.#say(`traffic to ${targets.map(({ name, address, port }) => `${name} ${address}:${port}`).join(', ')}`);
    return this.#traffic;
  }

  async remove(): Promise<void> {
    await this.#traffic?.kill();
    await this.#routes('flush');
    await this.#kubectl(['delete', 'namespace', this.namespace, '--ignore-not-found', '--wait=false']);
  }

  async #targets(): Promise<readonly Target[]> {
    const { items } = JSON.parse(await this.#own(['get', 'services', '--output=json'])) as {
      items: readonly ServedService[];
    };
    return targetsOf(items, this.#state);
  }

  /** The client on the host reaches ClusterIPs through the last node; the one in a Pod is on the first. */
  async #routes(what: 'replace' | 'flush'): Promise<void> {
    const node = this.#state.nodes.at(-1);
    for (const [index, family] of this.#state.families.entries()) {
      const route = ['ip', family === 'ipv6' ? '-6' : '-4', 'route', what, PLANS[family].services];
      const via = what === 'replace' ? ['via', node?.addresses[index] ?? ''] : [];
      await runCommand(['nsenter', `--net=${this.#state.netns}`, '--', ...route, ...via]);
    }
  }

  /** Full names of images that the nodes have. */
  async #images(): Promise<{ readonly agnhost: string; readonly ours: string }> {
    const shell = path.join(clusterFolder(this.#state.cluster).root, 'node-shell');
    const names = (await runCommand([shell, 'node-1', 'ctr -n k8s.io images ls -q'])).stdout.split('\n');
    const named = (pattern: RegExp): string => {
      const name = names.find((each) => pattern.test(each));
      if (name === undefined) throw new Error(`node-1 has no image ${pattern}: ${names.join(' ')}`);
      return name;
    };
    return { agnhost: named(/\/agnhost:/), ours: named(/\/kube-ipvs-proxy:/) };
  }

  #own(args: readonly string[]): Promise<string> {
    return this.#kubectl([`--namespace=${this.namespace}`, ...args]);
  }

  async #apply(items: readonly unknown[]): Promise<void> {
    await this.#kubectl(['apply', '--filename=-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  }

  async #kubectl(args: readonly string[], input = ''): Promise<string> {
    return (await runCommand([...kubectlFor(this.#state), ...args], { input, timeoutMs: 300_000 })).stdout;
  }
}
