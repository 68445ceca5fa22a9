import path from 'node:path';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');

/** What a first sync may take in a slow kernel. */
const FIRST_SYNC_MS = 60_000;

/**
 * The command line that starts the bundled daemon, with what every test wants. A node of the bed is a network namespace, and only the
 * host's own can raise the number of tracked connections.
 */
export function daemonArgv(node: Namespace, flags: readonly string[]): string[] {
  return [
    process.execPath,
    // As the bundle's first line has it.
    '--max-semi-space-size=2',
    '--max-old-space-size=512',
    '--use-openssl-ca',
    BUNDLE,
    '--proxy-mode=ipvs',
    `--hostname-override=${node.name}`,
    '--conntrack-max-per-core=0',
    ...flags,
  ];
}

/** The bundled daemon on a node of the bed, as a process of its own; resolves after its first sync. */
export async function startDaemon(node: Namespace, flags: readonly string[]): Promise<LongProcess> {
  const daemon = await node.spawn(daemonArgv(node, flags));
  await daemon.waitForOutput(/first sync done/, FIRST_SYNC_MS);
  return daemon;
}
