import { createNftablesKernel } from '../../src/kernel/nftables/nftables-kernel.ts';
import { IP_FAMILIES } from '../../src/base/ip.ts';
import { NftLink } from '../../src/kernel/nftables/port/nft-link.ts';
import { nftText } from '../../test/support/nft-text.ts';
import { QuietLog } from '../../test/contract/quiet-log.ts';
import type { BenchNode } from './bench-node.ts';
import type { Measurements } from './measure.ts';
import { openSocket } from './nft-floor.ts';

/** Whether this kernel has nf_tables; says so if a row must be left out. */
export async function hasNfTables(out: Measurements): Promise<boolean> {
  const kernel = createNftablesKernel({ log: new QuietLog() });
  try {
    await kernel.probeRules(4);
    return true;
  } catch {
    out.progress('left out: this kernel has no nf_tables; KERNEL=uml-nft has');
    return false;
  } finally {
    await kernel.close();
  }
}

/** What `nft list ruleset` prints. */
export async function listRuleset(node: BenchNode): Promise<string> {
  return await node.run(['nft', 'list', 'ruleset']);
}

/** The tables of a node, item by item; elements in any order, for the seed of their hashes is another in each table. */
export async function readTables(node: BenchNode): Promise<readonly string[]> {
  const socket = openSocket(node);
  try {
    const link = new NftLink(socket, () => undefined);
    const items: string[] = [];
    for (const family of IP_FAMILIES) {
      // nft writes some expressions of a rule in another way.
      for (const { chain } of await link.rules(family)) items.push(`rule of ${chain}`);
      for (const { name } of await link.sets(family)) {
        await link.eachElement(family, name, ({ key, data }) => items.push(`${name} ${nftText([{ key, data }])}`));
      }
    }
    return items.sort();
  } finally {
    socket.close();
  }
}

/** A time is of use only if all that was timed has left the same state. */
export async function mustHoldTables(node: BenchNode, wanted: readonly string[], who: string): Promise<void> {
  const found = await readTables(node);
  if (found.length !== wanted.length || found.some((item, at) => item !== wanted[at])) {
    throw new Error(`${who} left other tables`);
  }
}
