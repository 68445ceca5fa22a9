import { createIptablesKernelReader } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { ask } from '../../src/command/ask.ts';
import type { SupportReply } from '../../src/explain/node/node-replies.ts';
import type { KernelReader } from '../../src/kernel/kernel.ts';
import { createNftablesKernelReader } from '../../src/kernel/nftables/nftables-kernel.ts';
import type { Namespace } from '../bed/namespace.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import { querySocketOf } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import type { KernelTables } from './kernel-tables.ts';
import { readTables } from './read-tables.ts';
import { virtualServerLine } from './tables.ts';

/** One for each node, because finding out the variant of iptables takes several programs. */
const readers = new Map<string, KernelReader>();

function readerOf({ netns }: Namespace): KernelReader {
  const known = readers.get(netns);
  if (known !== undefined) return known;
  const options = { log: new QuietLog(), netns: `/run/netns/${netns}` };
  const reader =
    TEST_MODE === 'iptables'
      ? createIptablesKernelReader({ ...options, maxAgeMs: 0 })
      : createNftablesKernelReader(options);
  readers.set(netns, reader);
  return reader;
}

/** Closes what readModeTables() has opened. */
export async function closeReaders(): Promise<void> {
  for (const reader of readers.values()) await reader.close();
  readers.clear();
}

/** What the tables of the mode hold, in the words of the scenarios. In userspace mode, the daemon alone knows endpoints. */
export async function readModeTables(node: Namespace): Promise<KernelTables> {
  const tables = await readTables(readerOf(node));
  return TEST_MODE === 'userspace' ? { ...tables, 'virtual servers': await forwardedServers(node) } : tables;
}

/** Virtual servers without options, and without real servers that drain. */
async function forwardedServers(node: Namespace): Promise<string[]> {
  const { virtualServers } = await ask<SupportReply>(querySocketOf(node), '/v1/support');
  return virtualServers.first.map(({ at, scheduler, realServers }) =>
    virtualServerLine(
      at,
      scheduler,
      [],
      realServers.filter(({ weight }) => weight > 0),
    ),
  );
}
