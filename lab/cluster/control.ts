import { cp, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../test/bed/command.ts';
import { Authority, apiServerCertificate } from './certificates.ts';
import { ComponentError, endOf, launch } from './component.ts';
import { awaitApiServer, awaitEtcd } from './control-plane.ts';
import { clusterFolder } from './folders.ts';
import { inside } from './keeper.ts';
import { kubectlOf } from './kubectl.ts';
import type { ClusterState, ComponentState } from './state-file.ts';

/** The API server waits up to a minute for its open connections. */
const STOP_MS = 120_000;

/** Stops and starts the parts of a running cluster, from any process that has read its cluster.json. */

export function componentOf({ components, cluster }: ClusterState, name: string): ComponentState {
  const found = components.find((component) => component.name === name);
  if (found !== undefined) return found;
  const names = components.map((component) => component.name).join(', ');
  throw new ComponentError(`the cluster ${cluster} has no component ${name}; it has ${names || 'none'}`);
}

/** Ends the process of the component, or the kernel of the node, and waits until it has ended. */
export async function stop(state: ClusterState, name: string, signal: 'TERM' | 'KILL' = 'TERM'): Promise<void> {
  const component = componentOf(state, name);
  await signalTo(state, component, signal);
  const deadline = performance.now() + STOP_MS;
  while ((await endOf(component)) === undefined) {
    if (performance.now() > deadline) throw new ComponentError(`${name} does not end by SIG${signal}`);
    await sleep(50);
  }
}

/** Starts a component that was stopped, with the same command line. Waits until the API server or etcd is ready. */
export async function start(state: ClusterState, name: string): Promise<void> {
  const component = componentOf(state, name);
  if ((await endOf(component)) === undefined) throw new ComponentError(`${name} runs already`);
  await launch(state.keeper, component);
  if (name === 'etcd') await awaitEtcd(component, state.keeper);
  if (name === 'kube-apiserver') {
    await awaitApiServer(component, kubectlOf(state.netns, state.kubectl, state.kubeconfig));
  }
}

/** Ends the component at once, not in order: the API server takes a minute for that. */
export async function restart(state: ClusterState, name: string): Promise<void> {
  await stop(state, name, 'KILL');
  await start(state, name);
}

/** Gives the API server a new certificate. It is valid for `more` addresses, too. */
export async function renewApiServerCertificate(state: ClusterState, more: readonly string[] = []): Promise<void> {
  const { certificates } = clusterFolder(state.cluster);
  await apiServerCertificate(Authority.in(certificates), state.families, more);
}

/** Copies the data of etcd as it is at one moment, in which etcd does not run. */
export async function snapshotEtcd(state: ClusterState): Promise<void> {
  const { etcd, etcdSnapshot } = clusterFolder(state.cluster);
  await rm(etcdSnapshot, { recursive: true, force: true });
  await signalTo(state, componentOf(state, 'etcd'), 'STOP');
  try {
    await cp(etcd, etcdSnapshot, { recursive: true });
  } finally {
    await signalTo(state, componentOf(state, 'etcd'), 'CONT');
  }
}

/** Goes back to the snapshot: API server and etcd stop, and start with the older data. */
export async function restoreEtcd(state: ClusterState): Promise<void> {
  const { etcd, etcdSnapshot } = clusterFolder(state.cluster);
  await stop(state, 'kube-apiserver', 'KILL');
  await stop(state, 'etcd');
  await rm(etcd, { recursive: true });
  await rename(etcdSnapshot, etcd);
  await start(state, 'etcd');
  await start(state, 'kube-apiserver');
}

/** Runs a shell command on a node; returns its output. It needs no kubelet. */
async function onNode(state: ClusterState, node: string, command: string): Promise<string> {
  const shell = path.join(clusterFolder(state.cluster).root, 'node-shell');
  return (await runCommand([shell, node, command], { timeoutMs: 60_000 })).stdout;
}

/** Ends the kubelet of a node and keeps it from starting again. Containers keep running. */
export async function stopKubelet(state: ClusterState, node: string): Promise<void> {
  await onNode(state, node, 'touch /run/kubelet-stopped; kill $(pidof kubelet)');
}

export async function startKubelet(state: ClusterState, node: string): Promise<void> {
  await onNode(state, node, 'rm /run/kubelet-stopped');
}

async function signalTo({ keeper }: ClusterState, { name, pidFile }: ComponentState, signal: string): Promise<void> {
  const pid = (await readFile(pidFile, 'utf8')).trim();
  if (!/^\d+$/.test(pid)) throw new ComponentError(`${name}: ${pidFile} has no process id`);
  // The program kill does not know process groups in this form; the shell does.
  await runCommand(inside(keeper, ['bash', '-c', `kill -s ${signal} -- -${pid}`]));
}
