import type { IpFamily } from '../../../base/ip.ts';
import { ElementList } from '../../../netlink/family/nf-tables/element-list.ts';
import type { NftMessage } from '../port/nft-message.ts';
import type { NftPort } from '../port/nft-port.ts';
import { messageText } from './message-text.ts';

/**
 * Returns our tables of these families as the lines of a script for nft that would make them. Of each set, at most
 * `mostElements` are in it, and a comment counts the others.
 */
export async function tablesText(
  port: NftPort,
  families: readonly IpFamily[],
  mostElements: number,
): Promise<readonly string[]> {
  return (await Promise.all(families.map((family) => tableText(port, family, mostElements)))).flat();
}

async function tableText(port: NftPort, family: IpFamily, mostElements: number): Promise<readonly string[]> {
  if (!(await port.hasTable(family))) return [];
  const [sets, chains, rules] = [await port.sets(family), await port.chains(family), await port.rules(family)];
  const messages: NftMessage[] = [
    { kind: 'new-table' },
    ...sets.map((set) => ({ kind: 'new-set' as const, set })),
    ...chains.map((chain) => ({ kind: 'new-chain' as const, chain })),
  ];
  const lines = messages.map((message) => messageText(message, family));
  for (const { chain, expressions } of rules) {
    const known = expressions.filter((expression) => expression.name !== 'other');
    if (known.length < expressions.length) lines.push(`# a rule of another program in chain ${chain}`);
    else lines.push(messageText({ kind: 'new-rule', chain, expressions: known }, family));
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
