import { configure, withIpvsLine } from '../configuration.ts';
import type { TrialContext } from '../context.ts';
import type { Trial } from '../trial.ts';

const NAMESPACE = 'kube-system';
const NAME = 'kube-ipvs-proxy';
const DAEMON_SET = `daemonset/${NAME}`;
const SELECTOR = `k8s-app=${NAME}`;

/** Far below what the daemon has in use. */
const TOO_LITTLE_MEMORY = 8 * 1024 * 1024;

/** What every release does to a cluster. `make smoke` runs it. */
export const daemonUpdate: Trial = {
  name: 'daemon-update',
  what: 'rolling update of the DaemonSet',
  proxies: ['ours'],
  limits: { failed: 0, cut: 0 },
  run: updateDaemonSet,
};

/** Every way in which our Pods end while the node goes on. */
export const daemonRestart: Trial = {
  name: 'daemon-restart',
  what: 'rolling update of the DaemonSet, of its ConfigMap; each Pod deleted, killed with SIGKILL, ended by the OOM killer',
  proxies: ['ours', 'ours-nftables', 'ours-iptables'],
  limits: { failed: 0, cut: 0 },
  async run(context) {
    await updateDaemonSet(context);
    await changeConfiguration(context);
    for (const { name } of context.state.nodes) {
      context.step(`kubectl delete pod on ${name}`);
      const pod = await podOn(context, name);
      await context.kubectl([`--namespace=${NAMESPACE}`, 'delete', 'pod', pod.name]);
      await awaitReady(context, name);
    }
    for (const { name } of context.state.nodes) await kill(context, name);
    for (const { name } of context.state.nodes) await runOutOfMemory(context, name);
  },
};

async function updateDaemonSet(context: TrialContext): Promise<void> {
  context.step('rolling update: an annotation of the DaemonSet changes');
  const annotations = { 'trial/started': new Date().toISOString() };
  const change = JSON.stringify({ spec: { template: { metadata: { annotations } } } });
  await context.kubectl([`--namespace=${NAMESPACE}`, 'patch', DAEMON_SET, `--patch=${change}`]);
  await context.rollout(DAEMON_SET, NAMESPACE);
  await context.wait(5);
}

/** Changes the sync period and restarts the Pods, and the same with the text as it was. */
async function changeConfiguration(context: TrialContext): Promise<void> {
  context.step('rolling update: the ConfigMap with another sync period');
  const before = await configure(context, withIpvsLine('syncPeriod: 17s'));
  await context.wait(5);
  context.step('rolling update: the ConfigMap as it was');
  await configure(context, () => before);
  await context.wait(5);
}

async function kill(context: TrialContext, node: string): Promise<void> {
  const before = await podOn(context, node);
  context.step(`kill -9 on ${node}`);
  await context.node(node, `kill -9 ${await processOn(context, node)}`);
  await awaitRestart(context, node, before.restarts);
}

async function runOutOfMemory(context: TrialContext, node: string): Promise<void> {
  const before = await podOn(context, node);
  const pid = await processOn(context, node);
  const [, group = ''] = /^0::(.*)$/m.exec(await context.node(node, `cat /proc/${pid}/cgroup`)) ?? [];
  context.step(`out of memory on ${node}: the limit of the container becomes ${TOO_LITTLE_MEMORY >> 20} MiB`);
  await context.node(node, `echo ${TOO_LITTLE_MEMORY} >/sys/fs/cgroup${group}/memory.max`);
  await awaitRestart(context, node, before.restarts);
  const { lastEnd } = await podOn(context, node);
  context.check(`the container on ${node} was ended by the OOM killer (${lastEnd})`, lastEnd === 'OOMKilled');
}

async function podOn(context: TrialContext, node: string) {
  const pods = await context.pods(SELECTOR, NAMESPACE);
  const pod = pods.find((each) => each.node === node && each.deletedAt === undefined);
  if (pod === undefined) throw new Error(`${node} has no Pod of ${NAME}: ${JSON.stringify(pods)}`);
  return pod;
}

/** The daemon itself, not a helper that it runs. */
async function processOn(context: TrialContext, node: string): Promise<string> {
  const [pid] = (await context.node(node, `pgrep -o -f ${NAME}.mjs`)).split('\n');
  if (pid === undefined || pid === '') throw new Error(`${node} runs no ${NAME}`);
  return pid;
}

/** Waits for the next start of the container on the node. */
async function awaitRestart(context: TrialContext, node: string, restarts: number): Promise<void> {
  const seconds = await context.until(`a new container on ${node}`, 180, async () => {
    const pod = await podOn(context, node);
    return pod.restarts > restarts && pod.ready;
  });
  context.say(`the new container on ${node} is ready after ${seconds} s`);
  await context.wait(5);
}

async function awaitReady(context: TrialContext, node: string): Promise<void> {
  const seconds = await context.until(`a ready Pod on ${node}`, 180, async () => {
    const pods = await context.pods(SELECTOR, NAMESPACE);
    return pods.some((pod) => pod.node === node && pod.deletedAt === undefined && pod.ready);
  });
  context.say(`the new Pod on ${node} is ready after ${seconds} s`);
  await context.wait(5);
}
