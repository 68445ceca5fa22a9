import { createNftablesKernel } from '../../src/kernel/nftables/nftables-kernel.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import type { BenchNode } from './bench-node.ts';
import type { Measurements } from './measure.ts';

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

/** A time is of use only if all that was timed has left the same state. */
export async function mustHoldRuleset(node: BenchNode, wanted: string, who: string): Promise<void> {
  if (sortedItems(await listRuleset(node)) !== sortedItems(wanted)) throw new Error(`${who} left another rule set`);
}

/** nft lists elements by their hashes, whose seed is another in each table. */
function sortedItems(ruleset: string): string {
  return ruleset
    .split(/\n|, ?| = \{ | \}$/m)
    .map((item) => item.trim())
    .sort()
    .join('\n');
}
