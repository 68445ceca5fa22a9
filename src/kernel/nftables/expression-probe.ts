import { type IpFamily, ip4FromBytes, ip6FromBytes } from '../../base/ip.ts';
import { nftFamily } from '../../state/nft-table.ts';
import { KernelError } from '../kernel-error.ts';
import { reasonOf } from '../../state/outcome.ts';
import type { NftMessage, RulePart } from './port/nft-message.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { NEW_CONNECTION, TO_THIS_NODE, masquerade, randomIndex, reject, translateTo } from './objects/steps.ts';

const CHAIN = 'expression-probe';

/**
 * Throws a KernelError that names the modules of the expressions and types of chains which the kernel lacks; some of them
 * only virtual servers with endpoints need, and the rules of another program may do without them.
 */
export async function requireExpressions(port: NftPort, family: IpFamily): Promise<void> {
  const needed = neededMessages(family);
  const tryMessages = async (messages: readonly NftMessage[]): Promise<NftRefusal | undefined> =>
    await port.tryOut(family, [{ kind: 'new-chain', chain: { name: CHAIN } }, ...messages]);
  const refusal = await tryMessages([...needed.values()]);
  if (refusal === undefined) return;
  const reason = `for ${nftFamily(family)} (${reasonOf(refusal)})`;
  const modules: string[] = [];
  for (const [module, message] of needed) {
    if ((await tryMessages([message]))?.code === 'ENOENT') modules.push(module);
  }
  if (modules.length === 0) {
    throw new KernelError('probeRules', refusal.code, `cannot write a table of nf_tables ${reason}`);
  }
  const message = `this kernel lacks expressions of nf_tables ${reason}: load the modules ${modules.join(', ')}, or use --proxy-mode=ipvs`;
  throw new KernelError('probeRules', 'UNSUPPORTED', message);
}

/** What needs a module, by the name of the module. */
function neededMessages(family: IpFamily): ReadonlyMap<string, NftMessage> {
  const address = family === 4 ? ip4FromBytes(new Uint8Array(4), 0) : ip6FromBytes(new Uint8Array(16), 0);
  const ruleOf = (rule: RulePart): NftMessage => ({ kind: 'new-rule', chain: CHAIN, ...rule });
  return new Map<string, NftMessage>([
    [
      'nft_chain_nat',
      { kind: 'new-chain', chain: { name: 'nat', base: { type: 'nat', hook: 'output', priority: 0 } } },
    ],
    ['nft_ct', ruleOf(NEW_CONNECTION)],
    ['nft_numgen', ruleOf(randomIndex(1))],
    ['nft_nat', ruleOf(translateTo('TCP', { address, port: 1 }))],
    ['nft_masq', ruleOf(masquerade(false, undefined))],
    ['nft_redir', ruleOf(TO_THIS_NODE)],
    [`nft_reject_ipv${family}`, ruleOf(reject(family))],
  ]);
}
