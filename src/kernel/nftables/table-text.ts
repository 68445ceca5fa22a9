import type { IpFamily } from '../../base/ip.ts';
import { ElementList } from '../../netlink/family/nf-tables/element-list.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { NftPort } from './port/nft-port.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import { readChains } from './rule-check.ts';
import { sameRules } from './port/same-expressions.ts';
import { messageText } from './preview/message-text.ts';

/**
 * Returns our tables of these families as the lines of a script for nft that would make them. Of each set, at most
 * `mostElements` are in it, and a comment counts the others. A rule that is none of ours, with the settings that were `asked` for, is a comment.
 */
export async function tablesText(
  port: NftPort,
  families: readonly IpFamily[],
  asked: ReadonlyMap<IpFamily, { readonly settings: RuleSettings }>,
  mostElements: number,
): Promise<readonly string[]> {
  const tables = families.map((family) => tableText(port, family, asked.get(family)?.settings, mostElements));
  return (await Promise.all(tables)).flat();
}

async function tableText(
  port: NftPort,
  family: IpFamily,
  settings: RuleSettings | undefined,
  mostElements: number,
): Promise<readonly string[]> {
  if (!(await port.hasTable(family))) return [];
  const sets = await port.sets(family);
  const { observed, rules, wanted } = await readChains(port, family, settings);
  const messages: NftMessage[] = [
    { kind: 'new-table' },
    ...sets.map((set) => ({ kind: 'new-set' as const, set })),
    ...Array.from(observed.values(), (chain) => ({ kind: 'new-chain' as const, chain })),
  ];
  const lines = messages.map((message) => messageText(message, family));
  for (const [chain, found] of rules) {
    const ours = wanted.get(chain)?.rules ?? [];
    for (const [at, { expressions }] of found.entries()) {
      const rule = [...ours.slice(at, at + 1), ...ours].find((each) => sameRules([each.expressions], [expressions]));
      if (rule === undefined) lines.push(`# a rule of another program in chain ${chain}`);
      else lines.push(messageText({ kind: 'new-rule', chain, ...rule }, family));
    }
  }
  for (const { name } of sets) {
    const elements = new ElementList();
    let count = 0;
    await port.eachElement(family, name, ({ key, data, isEnd }) => {
      count += 1;
      if (count <= mostElements) elements.add(key, data, isEnd);
    });
    if (count > 0) lines.push(messageText({ kind: 'new-elements', set: name, elements }, family));
    if (count > mostElements) lines.push(`# ${count - mostElements} more elements of ${name}`);
  }
  return lines;
}
