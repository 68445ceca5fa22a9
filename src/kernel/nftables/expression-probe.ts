import { type IpFamily, ip4FromBytes, ip6FromBytes } from '../../base/ip.ts';
import { nftFamily } from '../../state/nft-table.ts';
import { KernelError } from '../kernel-error.ts';
import type { NftMessage } from './nft-message.ts';
import type { NftPort, NftRefusal } from './nft-port.ts';
import { NEW_CONNECTION, type Steps, TO_THIS_NODE, masquerade, randomIndex, reject, translateTo } from './steps.ts';

const CHAIN = 'expression-probe';

/**
 * Throws a KernelError that names the modules of the expressions which the kernel lacks; some of them only virtual servers
 * with endpoints need. Creates a chain and, unless it exists, the table, and deletes them in the same transaction, so that
 * nothing of them is ever in force.
 */
export async function requireExpressions(port: NftPort, family: IpFamily): Promise<void> {
  const needed = neededExpressions(family);
  const hasTable = await port.hasTable(family);
  const tryRules = async (rules: readonly Steps[]): Promise<NftRefusal | undefined> =>
    await port.commit(family, hasTable ? inChain(rules) : inTable(inChain(rules)));
  const refusal = await tryRules([...needed.values()]);
  if (refusal === undefined) return;
  const { code, text } = refusal;
  const reason = `for ${nftFamily(family)} (${code}${text === '' ? '' : `: ${text}`})`;
  const modules: string[] = [];
  for (const [module, steps] of needed) {
    if ((await tryRules([steps]))?.code === 'ENOENT') modules.push(module);
  }
  if (modules.length === 0) throw new KernelError('probeRules', code, `cannot write a table of nf_tables ${reason}`);
  const message = `this kernel lacks expressions of nf_tables ${reason}: load the modules ${modules.join(', ')}, or use --proxy-mode=ipvs`;
  throw new KernelError('probeRules', 'UNSUPPORTED', message);
}

function inTable(messages: readonly NftMessage[]): readonly NftMessage[] {
  return [{ kind: 'new-table' }, ...messages, { kind: 'delete-table' }];
}

function inChain(rules: readonly Steps[]): readonly NftMessage[] {
  return [
    { kind: 'new-chain', chain: { name: CHAIN } },
    ...rules.map((expressions): NftMessage => ({ kind: 'new-rule', chain: CHAIN, expressions })),
    { kind: 'flush-chain', name: CHAIN },
    { kind: 'delete-chain', name: CHAIN },
  ];
}

/** By the names of their modules. */
function neededExpressions(family: IpFamily): ReadonlyMap<string, Steps> {
  const address = family === 4 ? ip4FromBytes(new Uint8Array(4), 0) : ip6FromBytes(new Uint8Array(16), 0);
  return new Map([
    ['nft_ct', NEW_CONNECTION],
    ['nft_numgen', randomIndex(1)],
    ['nft_nat', translateTo('TCP', { address, port: 1 })],
    ['nft_masq', masquerade(false, undefined)],
    ['nft_redir', TO_THIS_NODE],
    [`nft_reject_ipv${family}`, reject(family)],
  ]);
}
