import type { IpFamily } from '../../base/ip.ts';
import type { Op } from '../../state/op.ts';
import { type Preview, type PreviewCommand, withInput } from '../../state/commands/write-preview.ts';
import type { RuleDifference, RuleSet } from '../../state/rules/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import { baseChains } from './objects/base-chains.ts';
import type { NftPort } from './port/nft-port.ts';
import { NftTables } from './nft-tables.ts';
import { contents } from './replacing-port.ts';
import { checkRules } from './rule-check.ts';
import { tableState } from './table-take-over.ts';
import { TableView } from './table-view.ts';
import { messageText } from './preview/message-text.ts';
import { type FamilyMessage, TablePreview } from './table-preview.ts';

interface Written {
  /** The families whose table is that of another program. */
  readonly foreign: ReadonlySet<IpFamily>;
  readonly rules: readonly FamilyMessage[];
  readonly parts: readonly (readonly FamilyMessage[])[];
}

/** Returns the scripts for nft that would establish the rules and then the parts, one transaction each. */
export async function previewOf(
  base: NftPort,
  rules: readonly RuleSet[],
  parts: readonly (readonly Op[])[],
): Promise<Preview> {
  const written = await writtenOn(base, rules, parts);
  const { foreign } = written;
  return { rules: commandsOf(written.rules, foreign), parts: written.parts.map((part) => commandsOf(part, foreign)) };
}

/**
 * Returns the same for a node without tables. Chains come with the rules: nft 1.0.6 adds no rule that looks up an endpoint
 * if it has read the map from the kernel ("conflicting protocols specified: ip vs. th").
 */
export async function previewOfNothing(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
  const written = await writtenOn(undefined, rules, parts);
  const isElement = ({ message: { kind } }: FamilyMessage): boolean => kind === 'new-elements';
  const chains = written.parts.flatMap((part) => part.filter((each) => !isElement(each)));
  return {
    rules: commandsOf([...written.rules, ...chains]),
    parts: written.parts.map((part) => commandsOf(part.filter(isElement))),
  };
}

async function writtenOn(
  base: NftPort | undefined,
  rules: readonly RuleSet[],
  parts: readonly (readonly Op[])[],
): Promise<Written> {
  const table = new TablePreview(base);
  const foreign = new Set<IpFamily>();
  for (const { family, settings } of rules) {
    if (settings === undefined) continue;
    const state = await tableState(table, family);
    if (state === 'ours') {
      const { repairs, surplus } = await checkRules(table, settings, family);
      await table.commit(family, [...repairs.flat(), ...surplus]);
      continue;
    }
    if (state === 'foreign') {
      foreign.add(family);
      await table.commit(family, [{ kind: 'delete-table' }]);
    }
    await table.commit(family, [{ kind: 'new-table' }, ...contents(baseChains(settings, family), family)]);
  }
  const ofRules = table.take();
  const ofParts: (readonly FamilyMessage[])[] = [];
  for (const part of parts) {
    // With another view, a part does not delete the leftovers of the one before.
    await new NftTables((family) => new TableView(table, family), Infinity).apply(new Transaction(part));
    ofParts.push(table.take());
  }
  return { foreign, rules: ofRules, parts: ofParts };
}

/** @param foreign the families of which everything is written anew, because another program wrote the table */
function commandsOf(
  messages: readonly FamilyMessage[],
  foreign: ReadonlySet<IpFamily> = new Set(),
): readonly (PreviewCommand & RuleDifference)[] {
  if (messages.length === 0) return [];
  const lines = messages.map(({ family, message }) => messageText(message, family));
  const isExplained = messages.every(({ family }) => foreign.has(family));
  return [{ command: withInput('nft -f -', lines.join('\n')), ...(isExplained ? { known: 'other-table' } : {}) }];
}
