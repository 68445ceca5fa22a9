import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { PLANS, nodeIndexes, nodeName } from './addresses.ts';
import { buildPrograms } from './build.ts';
import { createCredentials, kubeconfigOf, startControlPlane } from './control-plane.ts';
import { type Cache, type ClusterFolder, cacheOf, clusterFolder } from './folders.ts';
import { packClusterImages } from './images/cluster-images.ts';
import { endKeeper, netnsOf, runs, startKeeper } from './keeper.ts';
import { ensureKernel } from './kernel/ensure.ts';
import { type Kubectl, kubectlOf } from './kubectl.ts';
import { startLoadBalancer } from './load-balancer/start.ts';
import { createNetwork } from './network.ts';
import { awaitNode, importAll, startNodes } from './nodes.ts';
import { ensurePackages } from './packages.ts';
import { CLUSTER_PROGRAMS } from './programs.ts';
import { type Settings, SettingsError } from './settings.ts';
import { type ClusterState, type ComponentState, type ProcessMark, readState, writeState } from './state-file.ts';
import { writeTools } from './tools.ts';
import { applyDns, applyProxy, awaitRollout } from './workloads.ts';

export type Say = (line: string) => void;

/** Brings a cluster up. If that fails, it leaves no process and of its files only the logs. */
export async function clusterUp(settings: Settings, say: Say): Promise<void> {
  const cache = cacheOf(settings.kubernetes);
  const folder = clusterFolder(settings.cluster);
  await refuseIfRunning(folder, settings);
  await buildPrograms(settings.kubernetes, cache, CLUSTER_PROGRAMS, say);
  if (await ensurePackages(cache.packages)) say(`packages of the nodes: unpacked in ${cache.packages}`);
  const kernel = await ensureKernel(cache.home, say);
  await rm(folder.root, { recursive: true, force: true });
  await mkdir(folder.logs, { recursive: true });
  await mkdir(folder.images, { recursive: true });
  const packed = await packClusterImages(settings.kubernetes, { cache: cache.home, ours: folder.images });
  for (const archive of packed) say(`image packed: ${archive}`);
  const keeper = await startKeeper();
  const state = stateOf(settings, cache, folder, keeper);
  const onSignal = (): void => {
    void fail(keeper, folder).finally(() => process.exit(130));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, onSignal);
  try {
    // From here on, `make cluster-down` can end it, whatever happens to this program.
    await writeState(folder.state, state);
    const components = await start(settings, { cache, kernel }, folder, state, say);
    await writeState(folder.state, { ...state, components });
    const lines = await writeTools(folder, cache, state);
    say(`the cluster ${settings.cluster} is ready:\n${lines.map((line) => `  ${line}`).join('\n')}`);
  } catch (error) {
    await fail(keeper, folder);
    throw error;
  }
}

async function refuseIfRunning(folder: ClusterFolder, { cluster }: Settings): Promise<void> {
  const state = await readState(folder.state);
  if (state === undefined || !(await runs(state.keeper))) return;
  throw new SettingsError(`the cluster ${cluster} is up: first run make cluster-down CLUSTER=${cluster}`);
}

function stateOf(settings: Settings, cache: Cache, folder: ClusterFolder, keeper: ProcessMark): ClusterState {
  return {
    cluster: settings.cluster,
    kubernetes: settings.kubernetes,
    families: settings.families,
    kubeconfig: kubeconfigOf(folder, 'admin'),
    netns: netnsOf(keeper),
    kubectl: path.join(cache.bin, 'kubectl'),
    bin: cache.bin,
    nodes: nodeIndexes(settings.nodes).map((index) => ({
      name: nodeName(index),
      addresses: settings.families.map((family) => PLANS[family].node(index)),
    })),
    components: [],
    keeper,
  };
}

async function start(
  settings: Settings,
  { cache, kernel }: { readonly cache: Cache; readonly kernel: string },
  folder: ClusterFolder,
  state: ClusterState,
  say: Say,
): Promise<readonly ComponentState[]> {
  const { keeper } = state;
  const clock = stopwatch(say);
  const command = kubectlOf(state.netns, state.kubectl, state.kubeconfig);
  const credentials = await createCredentials(folder, settings);
  await createNetwork(keeper, settings);
  // Nodes boot and import images while the control plane starts.
  const first = ['pause.tar', 'coredns.tar', ...(settings.proxy.startsWith('kube-proxy') ? ['debian.tar'] : [])];
  const nodes = await startNodes(keeper, folder, cache, settings, credentials, first, kernel);
  const controlPlane = await startControlPlane(keeper, folder, cache.bin, settings, credentials, command);
  if (settings.loadBalancer) await startLoadBalancer(keeper, folder, settings);
  clock('the API server is ready');
  const proxy = await applyProxy(folder, settings, command);
  for (const [at, node] of nodes.entries()) await awaitNode(node, at + 1, settings, command);
  clock('all nodes are Ready');
  // Now its Pods are spread over the nodes.
  const workloads = [proxy, await applyDns(folder, settings, command)];
  if (settings.proxy !== 'none') await awaitWorkloads(workloads, nodes, folder, command, clock);
  await importAll(nodes, folder);
  clock('the images of tests are imported');
  return [...controlPlane, ...nodes];
}

/** Without a service proxy, CoreDNS does not reach the API server. */
async function awaitWorkloads(
  workloads: readonly (string | undefined)[],
  [node]: readonly ComponentState[],
  folder: ClusterFolder,
  command: Kubectl,
  clock: Say,
): Promise<void> {
  for (const workload of workloads) {
    if (workload === undefined || node === undefined) continue;
    await awaitRollout(workload, node, folder, command);
    clock(`${workload} is Ready`);
  }
}

function stopwatch(say: Say): Say {
  const begin = performance.now();
  return (line) => say(`${line} after ${Math.round((performance.now() - begin) / 1000)} s`);
}

/** Ends everything; keeps the logs of the control plane and of the nodes. */
async function fail(keeper: ProcessMark, folder: ClusterFolder): Promise<void> {
  await endKeeper(keeper);
  for (const entry of await readdir(folder.root)) {
    if (path.join(folder.root, entry) === folder.logs) continue;
    await rm(path.join(folder.root, entry), { recursive: true });
  }
}

/** Ends a cluster and removes its folder. Returns false if there is no such cluster. */
export async function clusterDown(cluster: string): Promise<boolean> {
  const folder = clusterFolder(cluster);
  const state = await readState(folder.state);
  if (state !== undefined) await endKeeper(state.keeper);
  const existed = await readdir(folder.root).then(
    () => true,
    () => false,
  );
  await rm(folder.root, { recursive: true, force: true });
  return existed;
}
