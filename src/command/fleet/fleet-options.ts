import { createCommandRunner } from '../../kernel/command-runner.ts';
import { type Answers, type Asking, type Question, askNodes } from '../../fleet/asking/ask-nodes.ts';
import { Kubectl, KubectlError } from '../../fleet/asking/kubectl.ts';
import { type ProxyPod, clusterNodes, proxyPods } from '../../fleet/asking/pods.ts';
import type { SilentNode } from '../../fleet/fleet-replies.ts';
import { OWN_FLAGS } from '../../config/flags/own-flags.ts';
import { wholeNumber } from '../whole-number.ts';
import { UsageError } from '../usage-error.ts';
import type { Command, Given } from '../command.ts';

const DEFAULT_SECONDS = 10;
const MOST_SECONDS = 600;
const DEFAULT_PARALLEL = 16;
const MOST_PARALLEL = 128;

/** The options of every subcommand about many nodes. */
export const FLEET_OPTIONS: Command['options'] = {
  nodes: { hint: 'names', help: 'only these nodes, separated by commas' },
  'all-nodes': { help: 'all nodes; the default' },
  'proxy-namespace': { hint: 'name', help: 'namespace of the DaemonSet; kube-system by default' },
  selector: { short: 'l', hint: 'labels', help: 'labels of its Pods; k8s-app=kube-ipvs-proxy by default' },
  timeout: { hint: 'seconds', help: `time that each node has; ${DEFAULT_SECONDS} by default` },
  parallel: { hint: 'number', help: `nodes that are asked at the same time; ${DEFAULT_PARALLEL} by default` },
  context: { hint: 'name', help: 'context of the kubeconfig' },
  kubeconfig: { hint: 'path', help: 'kubeconfig of kubectl' },
};

/** The nodes of a cluster, as a subcommand asks them. Until it is disposed of, Ctrl-C ends what is being asked. */
export class Fleet implements Disposable {
  readonly asking: Asking;
  /** The Pods that are asked. */
  readonly pods: readonly ProxyPod[];
  /** The nodes that were named and have no Pod. */
  readonly unknown: readonly SilentNode[];
  /** Nodes of the cluster without a Pod; not looked for if nodes were named. */
  readonly withoutPod: readonly string[];
  /** Options of the program in every Pod. */
  readonly programOptions: readonly string[];

  readonly #interruption: Interruption;

  private constructor(
    asking: Asking,
    querySocket: string,
    interruption: Interruption,
    found: Pick<Fleet, 'pods' | 'unknown' | 'withoutPod'>,
  ) {
    this.#interruption = interruption;
    this.asking = asking;
    this.pods = found.pods;
    this.unknown = found.unknown;
    this.withoutPod = found.withoutPod;
    this.programOptions = querySocket === OWN_FLAGS.querySocket.fallback ? [] : [`--query-socket=${querySocket}`];
  }

  /** Finds the Pods. Throws a UsageError if kubectl cannot. */
  static async find({ values, querySocket }: Given): Promise<Fleet> {
    const { nodes, context, kubeconfig, selector = 'k8s-app=kube-ipvs-proxy' } = values;
    if (nodes !== undefined && values['all-nodes'] !== undefined) {
      throw new UsageError('--all-nodes and --nodes exclude each other');
    }
    const interruption = new Interruption();
    const kubectl = new Kubectl({
      runner: createCommandRunner({ env: process.env }),
      signal: interruption.signal,
      global: [
        ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
        ...(context === undefined ? [] : [`--context=${context}`]),
      ],
    });
    const asking: Asking = {
      kubectl,
      namespace: values['proxy-namespace'] ?? 'kube-system',
      seconds: wholeNumber('timeout', values['timeout'] ?? String(DEFAULT_SECONDS), 1, MOST_SECONDS),
      parallel: wholeNumber('parallel', values['parallel'] ?? String(DEFAULT_PARALLEL), 1, MOST_PARALLEL),
    };
    try {
      const [pods, all] = await Promise.all([
        proxyPods(kubectl, { namespace: asking.namespace, selector }, MOST_LIST_SECONDS),
        nodes === undefined ? clusterNodes(kubectl, MOST_LIST_SECONDS) : [],
      ]);
      return new Fleet(asking, querySocket, interruption, selected(pods, nodes?.split(','), all));
    } catch (error) {
      interruption[Symbol.dispose]();
      if (error instanceof KubectlError) throw new UsageError(error.message, { cause: error });
      throw error;
    }
  }

  /** Asks each node. `longer`: seconds that the answer takes anyway. */
  async ask<T>(question: Question<T>, longer = 0): Promise<Answers<T>> {
    const args = (pod: ProxyPod): readonly string[] => [...question.args(pod), ...this.programOptions];
    const asked = { ...question, args };
    const asking = { ...this.asking, seconds: this.asking.seconds + longer };
    const { answers, silent } = await askNodes(this.pods, asked, asking);
    return { answers, silent: [...silent, ...this.unknown] };
  }

  [Symbol.dispose](): void {
    this.#interruption[Symbol.dispose]();
  }
}

/** Aborts when the user presses Ctrl-C: kubectl has a process group of its own, and would go on. */
class Interruption implements Disposable {
  readonly #controller = new AbortController();

  constructor() {
    process.on('SIGINT', this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    process.off('SIGINT', this.#onSignal);
  }

  readonly #onSignal = (): void => this.#controller.abort();
}

/** The list of all Pods takes an API server a few seconds at most. */
const MOST_LIST_SECONDS = 60;

function selected(
  pods: readonly ProxyPod[],
  names: readonly string[] | undefined,
  all: readonly string[],
): Pick<Fleet, 'pods' | 'unknown' | 'withoutPod'> {
  const known = new Set(pods.map(({ node }) => node));
  if (names === undefined) return { pods, unknown: [], withoutPod: all.filter((name) => !known.has(name)) };
  const named = new Set(names);
  return {
    pods: pods.filter(({ node }) => named.has(node)),
    unknown: [...named]
      .filter((node) => !known.has(node))
      .map((node) => ({ node, why: 'it has no Pod of kube-ipvs-proxy' })),
    withoutPod: [],
  };
}
