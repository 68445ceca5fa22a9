import type { Preview } from '../../state/commands/write-preview.ts';
import type { Op } from '../../state/op.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { previewOfNothing as tablesOfNothing } from '../nftables/nft-preview.ts';
import { EngineServers, SILENT_ENGINE } from './engine-servers.ts';
import { type FindRules, ServerChanges } from './server-changes.ts';

/** Returns what each part would write to the table. The engine gets nothing. @param servers a copy */
export async function ruleParts(
  servers: EngineServers,
  parts: readonly (readonly Op[])[],
  findRules: FindRules,
): Promise<readonly (readonly Op[])[]> {
  const written: (readonly Op[])[] = [];
  for (const part of parts) {
    const changes = await ServerChanges.begin(servers, part, findRules);
    await changes.end();
    written.push(changes.ops);
  }
  return written;
}

/** As KernelReader.preview on a node that has nothing yet. Loopback addresses stand for those of the node. */
export async function previewOfNothing(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
  const nothing: FindRules = () => Promise.resolve(new Map());
  return await tablesOfNothing(rules, await ruleParts(new EngineServers(() => SILENT_ENGINE), parts, nothing));
}
