import path from 'node:path';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { TEST_MODE } from './mode.ts';

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');

/** Another build of the daemon, and further arguments of node. */
export interface DaemonProgram {
  readonly bundle?: string;
  readonly runtime?: readonly string[];
}

/** Time limit of the first sync on a slow kernel. */
const FIRST_SYNC_MS = 60_000;

/**
 * Returns the command line of the bundled daemon with the flags common to all tests. A node of the bed is a network
 * namespace, and only the host's own can raise nf_conntrack_max.
 */
export function daemonArgv(
  node: Namespace,
  flags: readonly string[],
  mode = TEST_MODE,
  { bundle = BUNDLE, runtime = [] }: DaemonProgram = {},
): string[] {
  return [
    process.execPath,
    // As in the bundle's first line.
    '--max-semi-space-size=2',
    '--max-old-space-size=512',
    '--use-openssl-ca',
    ...runtime,
    bundle,
    `--proxy-mode=${mode}`,
    `--hostname-override=${node.name}`,
    '--conntrack-max-per-core=0',
    // The nodes share a file system.
    `--query-socket=${querySocketOf(node)}`,
    ...flags,
  ];
}

/** The socket on which the daemon of this node answers the subcommands. */
export function querySocketOf(node: Namespace): string {
  return `/run/kube-ipvs-proxy/${process.pid}-${node.name}.sock`;
}

/** Starts the bundled daemon as a process on a node of the bed. Resolves after its first sync. */
export async function startDaemon(node: Namespace, flags: readonly string[]): Promise<LongProcess> {
  const daemon = await node.spawn(daemonArgv(node, flags));
  await daemon.waitForOutput(/initial sync complete/, FIRST_SYNC_MS);
  return daemon;
}
