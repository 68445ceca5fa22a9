import type { IpFamily } from '../../base/ip.ts';
import type { Op } from '../../state/op.ts';
import { type Preview, type PreviewCommand, withInput } from '../../state/commands/write-preview.ts';
import type { RuleDifference, RuleSet } from '../../state/rules/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import { baseChains, contents } from './objects/base-chains.ts';
import type { NftPort } from './port/nft-port.ts';
import { NftTables } from './nft-tables.ts';
import { checkRules } from './rule-check.ts';
import { tableState } from './table-take-over.ts';
import { TableView } from './table-view.ts';
import { messageText } from './preview/message-text.ts';
import { type FamilyMessage, TablePreview } from './table-preview.ts';

/**
 * Returns the scripts for nft that would establish the rules and then the parts, one transaction each. Without `base`, for
 * a node without tables: then chains come with the rules, as nft 1.0.6 adds no rule that looks up an endpoint if it has read
 * the map from the kernel ("conflicting protocols specified: ip vs. th").
 */
export async function previewOf(
  base: NftPort | undefined,
  rules: readonly RuleSet[],
  parts: readonly (readonly Op[])[],
): Promise<Preview> {
  const table = new TablePreview(base);
  const foreign = new Set<IpFamily>();
  for (const each of rules) if (await writeRules(table, each)) foreign.add(each.family);
  const ofRules = table.take();
  const ofParts: (readonly FamilyMessage[])[] = [];
  for (const part of parts) {
    // With another view, a part does not delete the leftovers of the one before.
    await new NftTables((family) => new TableView(table, family), Infinity).apply(new Transaction(part));
    ofParts.push(table.take());
  }
  const isOfPart = ({ message }: FamilyMessage): boolean => base !== undefined || message.kind === 'new-elements';
  const chains = ofParts.flatMap((part) => part.filter((each) => !isOfPart(each)));
  return {
    rules: commandsOf([...ofRules, ...chains], foreign),
    parts: ofParts.map((part) => commandsOf(part.filter(isOfPart), foreign)),
  };
}

/** Returns whether the table was another program's. */
async function writeRules(table: TablePreview, { family, settings }: RuleSet): Promise<boolean> {
  if (settings === undefined) return false;
  const state = await tableState(table, family);
  if (state === 'ours') {
    const { repairs, surplus } = await checkRules(table, settings, family);
    await table.commit(family, [...repairs.flat(), ...surplus]);
    return false;
  }
  if (state === 'foreign') await table.commit(family, [{ kind: 'delete-table' }]);
  await table.commit(family, [{ kind: 'new-table' }, ...contents(baseChains(settings, family), family)]);
  return state === 'foreign';
}

/** @param foreign the families of which everything is written anew, because another program wrote the table */
function commandsOf(
  messages: readonly FamilyMessage[],
  foreign: ReadonlySet<IpFamily>,
): readonly (PreviewCommand & RuleDifference)[] {
  if (messages.length === 0) return [];
  const lines = messages.map(({ family, message }) => messageText(message, family));
  const isExplained = messages.every(({ family }) => foreign.has(family));
  return [{ command: withInput('nft -f -', lines.join('\n')), ...(isExplained ? { known: 'other-table' } : {}) }];
}
