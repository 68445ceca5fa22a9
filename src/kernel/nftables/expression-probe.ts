import { type IpFamily, parseIp } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { nftFamily } from '../../state/nft-table.ts';
import { KernelError } from '../kernel-error.ts';
import type { NftMessage } from './nft-message.ts';
import type { NftPort, NftRefusal } from './nft-port.ts';
import { NEW_CONNECTION, type Steps, TO_THIS_NODE, masquerade, randomIndex, reject, translateTo } from './steps.ts';

const CHAIN = 'expression-probe';

/**
 * Throws a KernelError that names the expressions which the kernel lacks; some of them only virtual servers with endpoints
 * need. Creates a table and deletes it in the same transaction, so that nothing of it is ever in force; the table must not
 * exist.
 */
export async function requireExpressions(port: NftPort, family: IpFamily): Promise<void> {
  const needed = neededExpressions(family);
  const refusal = await tryRules(port, family, [...needed.values()]);
  if (refusal === undefined) return;
  const { code, text } = refusal;
  const reason = `for ${nftFamily(family)} (${code}${text === '' ? '' : `: ${text}`})`;
  const modules: string[] = [];
  for (const [name, steps] of needed) {
    if ((await tryRules(port, family, [steps]))?.code === 'ENOENT') modules.push(`nft_${name}`);
  }
  if (modules.length === 0) throw new KernelError('probeRules', code, `cannot write a table of nf_tables ${reason}`);
  const message = `this kernel lacks expressions of nf_tables ${reason}: load the modules ${modules.join(', ')}, or use --proxy-mode=ipvs`;
  throw new KernelError('probeRules', 'UNSUPPORTED', message);
}

async function tryRules(port: NftPort, family: IpFamily, rules: readonly Steps[]): Promise<NftRefusal | undefined> {
  return await port.commit(family, [
    { kind: 'new-table' },
    { kind: 'new-chain', chain: { name: CHAIN } },
    ...rules.map((expressions): NftMessage => ({ kind: 'new-rule', chain: CHAIN, expressions })),
    { kind: 'delete-table' },
  ]);
}

/** Those that are modules of their own, by the names of these without nft_. */
function neededExpressions(family: IpFamily): ReadonlyMap<string, Steps> {
  const address = parseIp(family === 4 ? '192.0.2.1' : '2001:db8::1');
  const port = toPort(1);
  return new Map([
    ['ct', NEW_CONNECTION],
    ['numgen', randomIndex(1)],
    ...(address === undefined || port === undefined ? [] : [['nat', translateTo('TCP', { address, port })] as const]),
    ['masq', masquerade(false, undefined)],
    ['redir', TO_THIS_NODE],
    ['reject', reject(family)],
  ]);
}
