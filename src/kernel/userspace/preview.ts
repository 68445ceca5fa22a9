import type { Preview, PreviewCommand } from '../../state/commands/write-preview.ts';
import { type Op, formatOp } from '../../state/op.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { previewOf } from '../nftables/nft-preview.ts';
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

/** Adds what each part changes in the engine: comments, because no command does it. */
export function withEngine({ rules, parts }: Preview, ops: readonly (readonly Op[])[]): Preview {
  const ofEngine = (part: readonly Op[]): PreviewCommand[] =>
    part.filter((op) => 'realServer' in op).map((op) => ({ command: `# engine: ${formatOp(op)}`, op }));
  return { rules, parts: parts.map((commands, at) => [...commands, ...ofEngine(ops[at] ?? [])]) };
}

/** As KernelReader.preview on a node that has nothing yet. Loopback addresses stand for those of the node. */
export async function previewOfNothing(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
  const nothing: FindRules = () => Promise.resolve(new Map());
  const written = await ruleParts(new EngineServers(() => SILENT_ENGINE), parts, nothing);
  return withEngine(await previewOf(undefined, rules, written), parts);
}
