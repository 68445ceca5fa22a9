import type { IpFamily } from '../../base/ip.ts';
import { type NftBaseChain, decodeBaseChain, dumpAllChains } from '../../netlink/family/nf-tables/base-chain.ts';
import type { NetlinkMessage } from '../../netlink/netlink-message.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import { KernelError } from '../kernel-error.ts';
import { type NodeKernel, once } from '../linux/node-kernel.ts';
import { type Iptables, iptablesOf } from './iptables-handle.ts';
import { splitRule } from './iptables-rule.ts';
import { parseSave } from './iptables-save.ts';
import { type QuestionOptions, TABLES_OF_IPTABLES, askNfTables } from './nf-tables-question.ts';

/**
 * Returns a reader of other programs' rules, for a mode that has no iptables handle or whose handle must not be
 * shared.
 */
export function otherRulesReader(node: NodeKernel, ourTable?: string): (family: IpFamily) => Promise<OtherRules> {
  const programs = once(() => iptablesOf(node));
  return (family) => readOtherRules(programs(), family, node, ourTable);
}

/**
 * Reads what may be on the way of packets of a family. Runs iptables-save. `variant` is "" if no rules can be read: a node
 * of nftables mode need not have the program.
 *
 * @param ourTable the name of our own table of nf_tables, if we have one
 */
export async function readOtherRules(
  programs: Pick<Iptables, 'variant' | 'read'>,
  family: IpFamily,
  node: NodeKernel,
  ourTable?: string,
): Promise<OtherRules> {
  let variant = '';
  let tables: OtherRules['tables'] = new Map();
  try {
    tables = parseWithPolicies(await programs.read(family));
    variant = await programs.variant();
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
  }
  return { variant, tables, baseChains: await readBaseChains(family, variant, node, ourTable) };
}

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
async function readBaseChains(
  family: IpFamily,
  variant: string,
  options: QuestionOptions,
  ourTable: string | undefined,
): Promise<string[]> {
  const own = family === 4 ? 'ip' : 'ip6';
  const isOther = ({ family: of, table }: NftBaseChain): boolean =>
    (of === own || of === 'inet' || of === 'netdev' || of === 'bridge') &&
    (of !== own || (table !== ourTable && (variant === 'legacy' || !TABLES_OF_IPTABLES.has(table))));
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
