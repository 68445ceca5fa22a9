import type { IpFamily } from '../../base/ip.ts';
import { openConnection } from '../../netlink/transport/connection.ts';
import { type NftBaseChain, decodeBaseChain, dumpAllChains } from '../../netlink/family/nf-tables/base-chain.ts';
import { NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import { askAll } from '../linux/batch.ts';
import { splitRule } from './iptables-rule.ts';
import { parseSave } from './iptables-save.ts';

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

/** The tables that iptables-nft-save prints. */
const OF_IPTABLES: ReadonlySet<string> = new Set(['filter', 'nat', 'mangle', 'raw', 'security']);

/**
 * Returns the base chains that packets of the family may pass, in words, without those that iptables of this variant
 * prints; none if the kernel has no nf_tables.
 *
 * @param netns path of a network namespace; default: our own
 */
export async function readBaseChains(
  family: IpFamily,
  variant: string,
  { netns, trace }: { readonly netns?: string | undefined; readonly trace: Trace },
): Promise<string[]> {
  const own = family === 4 ? 'ip' : 'ip6';
  const isOther = ({ family: of, table }: NftBaseChain): boolean =>
    (of === own || of === 'inet' || of === 'netdev' || of === 'bridge') &&
    (variant === 'legacy' || of !== own || !OF_IPTABLES.has(table));
  const chains = await dumpBaseChains({ netns, trace });
  return chains.filter(isOther).map(({ family: of, table, name, hook, priority, drops }) => {
    const policy = drops ? ', policy drop' : '';
    return `table ${of} ${table}, chain ${name} (hook ${hook}, priority ${priority}${policy})`;
  });
}

async function dumpBaseChains({
  netns,
  trace,
}: {
  readonly netns?: string | undefined;
  readonly trace: Trace;
}): Promise<NftBaseChain[]> {
  try {
    const connection = openConnection({
      protocol: NETLINK_NETFILTER,
      trace,
      ...(netns === undefined ? {} : { netns }),
    });
    try {
      return await askAll(connection, [undefined], {
        operation: 'NFT_MSG_GETCHAIN',
        write: dumpAllChains,
        read: ({ payload }) => decodeBaseChain(payload),
      });
    } finally {
      connection.close();
    }
  } catch {
    // The kernel has no nf_tables.
    return [];
  }
}
