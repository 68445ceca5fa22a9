import type { IpFamily } from '../../base/ip.ts';
import { type NftBaseChain, decodeBaseChain, dumpAllChains } from '../../netlink/family/nf-tables/base-chain.ts';
import type { NetlinkMessage } from '../../netlink/netlink-message.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import { splitRule } from './iptables-rule.ts';
import { parseSave } from './iptables-save.ts';
import { type QuestionOptions, TABLES_OF_IPTABLES, askNfTables } from './nf-tables-question.ts';

/** Returns the rules of all tables in the output of iptables-save, with the policies of their chains. */
export function parseWithPolicies(text: string): OtherRules['tables'] {
  const dropping = droppingChains(text);
  return new Map(
    Array.from(parseSave(text), ([table, chains]) => [
      table,
      new Map(
        Array.from(chains, ([chain, rules]) => {
          const policy = dropping.has(`${table} ${chain}`) ? [['-P', 'DROP']] : [];
          return [chain, [...rules.map(splitRule), ...policy]];
        }),
      ),
    ]),
  );
}

function droppingChains(text: string): ReadonlySet<string> {
  const dropping = new Set<string>();
  let table = '';
  for (const [, named, chain] of text.matchAll(/^\*(\S+)|^:(\S+) DROP /gm)) {
    if (named !== undefined) table = named;
    else dropping.add(`${table} ${chain}`);
  }
  return dropping;
}

/**
 * Returns the base chains that packets of the family may pass, in words, without those that iptables of this variant
 * prints; none if the kernel has no nf_tables.
 */
export async function readBaseChains(family: IpFamily, variant: string, options: QuestionOptions): Promise<string[]> {
  const own = family === 4 ? 'ip' : 'ip6';
  const isOther = ({ family: of, table }: NftBaseChain): boolean =>
    (of === own || of === 'inet' || of === 'netdev' || of === 'bridge') &&
    (variant === 'legacy' || of !== own || !TABLES_OF_IPTABLES.has(table));
  const question = {
    operation: 'NFT_MSG_GETCHAIN',
    write: dumpAllChains,
    read: ({ payload }: NetlinkMessage) => decodeBaseChain(payload),
  };
  const chains = (await askNfTables(undefined, question, options)) ?? [];
  return chains.filter(isOther).map(({ family: of, table, name, hook, priority, drops }) => {
    const policy = drops ? ', policy drop' : '';
    return `table ${of} ${table}, chain ${name} (hook ${hook}, priority ${priority}${policy})`;
  });
}
