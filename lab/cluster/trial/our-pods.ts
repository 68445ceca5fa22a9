import type { TrialContext } from './context.ts';

const NAMESPACE = 'kube-system';
const NAME = 'kube-ipvs-proxy';
const SELECTOR = `k8s-app=${NAME}`;
const DAEMON_SET = `daemonset/${NAME}`;

/** The Pods of kube-ipvs-proxy during a trial. */
export class OurPods {
  readonly #context: TrialContext;

  constructor(context: TrialContext) {
    this.#context = context;
  }

  async patch(object: string, change: object): Promise<void> {
    await this.#kubectl(['patch', object, `--patch=${JSON.stringify(change)}`]);
  }

  async patchDaemonSet(change: object): Promise<void> {
    await this.patch(DAEMON_SET, change);
  }

  /** Replaces the Pods one after another. */
  async rollOut(): Promise<void> {
    await this.#kubectl(['rollout', 'restart', DAEMON_SET]);
    await this.#context.rollout(DAEMON_SET, NAMESPACE);
  }

  async awaitRollOut(): Promise<void> {
    await this.#context.rollout(DAEMON_SET, NAMESPACE);
  }

  /** Deletes all of them at once and does not wait. */
  async deleteAll(): Promise<void> {
    await this.#kubectl(['delete', 'pods', `--selector=${SELECTOR}`, '--wait=false']);
  }

  /** Deletes all of them at once. Returns the seconds until others are ready on every node. */
  async replaceAll(): Promise<number> {
    const begin = performance.now();
    await this.#kubectl(['delete', 'pods', `--selector=${SELECTOR}`]);
    await this.awaitAll();
    return Math.round((performance.now() - begin) / 100) / 10;
  }

  /** Ends all processes at once with SIGKILL. Returns the seconds until all Pods are ready again. */
  async killAll(): Promise<number> {
    const { state } = this.#context;
    const begin = performance.now();
    const before = await this.#restarts();
    await Promise.all(state.nodes.map(({ name }) => this.#context.node(name, `kill -9 $(pgrep -o -f ${NAME}.mjs)`)));
    await this.#context.until('every container was started again', 240, async () => (await this.#restarts()) > before);
    await this.awaitAll();
    return Math.round((performance.now() - begin) / 100) / 10;
  }

  /** Waits until every node has a ready one. */
  async awaitAll(): Promise<void> {
    const { state } = this.#context;
    await this.#context.until('a ready Pod of ours on every node', 300, async () => {
      const pods = await this.#context.pods(SELECTOR, NAMESPACE);
      const ready = pods.filter((pod) => pod.ready && pod.deletedAt === undefined);
      return state.nodes.every(({ name }) => ready.some(({ node }) => node === name));
    });
  }

  /** When the container on a node started: changes with every start. */
  async startedAt(node: string): Promise<string> {
    const field = '--output=jsonpath={.items[*].status.containerStatuses[0].state.running.startedAt}';
    return this.#kubectl(['get', 'pods', `--selector=${SELECTOR}`, `--field-selector=spec.nodeName=${node}`, field]);
  }

  /** What the Pods on all nodes have logged since a time: milliseconds since 1970. */
  async logs(since: number): Promise<string> {
    const pods = await this.#context.pods(SELECTOR, NAMESPACE);
    const time = `--since-time=${new Date(since).toISOString()}`;
    const texts = await Promise.all(pods.map(({ name }) => this.#kubectl(['logs', name, time])));
    return texts.join('');
  }

  /** The mode on each node, as the daemon there says. */
  async modes(): Promise<readonly { readonly node: string; readonly mode: string }[]> {
    const pods = await this.#context.pods(SELECTOR, NAMESPACE);
    return Promise.all(
      pods.map(async ({ name, node }) => {
        const reply = await this.#kubectl(['exec', name, '--', NAME, 'status', '--output=json']);
        return { node, mode: (JSON.parse(reply) as { readonly mode: string }).mode };
      }),
    );
  }

  /** The name of the ConfigMap that the DaemonSet mounts. */
  async configMap(): Promise<string> {
    const volume = '--output=jsonpath={.spec.template.spec.volumes[?(@.name=="config")].configMap.name}';
    return this.#kubectl(['get', DAEMON_SET, volume]);
  }

  async configFile(configMap: string, file: string): Promise<string> {
    const text = `--output=jsonpath={.data.${file.replace('.', String.raw`\.`)}}`;
    return this.#kubectl(['get', 'configmap', configMap, text]);
  }

  async #restarts(): Promise<number> {
    const pods = await this.#context.pods(SELECTOR, NAMESPACE);
    return Math.min(...pods.map(({ restarts }) => restarts));
  }

  #kubectl(args: readonly string[]): Promise<string> {
    return this.#context.kubectl([`--namespace=${NAMESPACE}`, ...args]);
  }
}
