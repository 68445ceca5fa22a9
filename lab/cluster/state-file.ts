import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Family } from './settings.ts';

/** A process of this machine. The start time tells it from a later one with the same id. */
export interface ProcessMark {
  readonly pid: number;
  /** Clock ticks from the machine's boot to the start of the process. */
  readonly startTime: string;
}

/** The file build/cluster/NAME/cluster.json: what other programs need to use a cluster, and `make cluster-down` to end it. */
export interface ClusterState {
  readonly cluster: string;
  readonly kubernetes: string;
  readonly families: readonly Family[];
  readonly kubeconfig: string;
  /** The network namespace, as a path: `nsenter --net=NETNS COMMAND` runs a command that reaches API server, nodes and Pods. */
  readonly netns: string;
  readonly kubectl: string;
  /** The folder of kubectl, e2e.test, ginkgo and the other programs. */
  readonly bin: string;
  readonly nodes: readonly NodeState[];
  /** Empty until all of them have started. control.ts stops and starts them. */
  readonly components: readonly ComponentState[];
  /** All processes of the cluster end with this one. */
  readonly keeper: ProcessMark;
}

/** A long process in the namespaces of the cluster: a program of the control plane, or the kernel of a node. */
export interface ComponentState {
  readonly name: string;
  readonly argv: readonly string[];
  /** Has the id of its process in the process namespace of the cluster, which leads a process group. */
  readonly pidFile: string;
  /** Exists when the process has ended, and says how. */
  readonly endFile: string;
  /** Files that say what went wrong; those that exist. The first is the output of the process. */
  readonly logs: readonly [string, ...string[]];
}

export interface NodeState {
  readonly name: string;
  /** One of each family, in the order of the families. */
  readonly addresses: readonly string[];
}

/** Returns undefined if there is no such file. */
export async function readState(file: string): Promise<ClusterState | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as ClusterState;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

export async function writeState(file: string, state: ClusterState): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(state, undefined, 2)}\n`);
  await rename(`${file}.new`, file);
}
