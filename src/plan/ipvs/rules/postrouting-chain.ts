import type { IpFamily } from '../../../base/ip.ts';
import { PROTOCOL_NUMBER } from '../../../base/protocol.ts';
import type { PlanConfig } from '../../plan-config.ts';
import { type Rule, comment, hexMark, inSet, rule, target } from './planned-rule.ts';

type MasqueradeConfig = Pick<PlanConfig, 'masqueradeMark' | 'masqueradePorts' | 'randomFully'>;

/** nat KUBE-POSTROUTING: masquerades hairpin connections and marked packets, and clears the mark. */
export function postroutingChain(config: MasqueradeConfig, family: IpFamily): readonly Rule[] {
  const mark = hexMark(config.masqueradeMark);
  return [
    ...masquerade(config, rule(comment('a pod that is its own endpoint'), inSet('LOOP-BACK', family, 'dst,dst,src'))),
    rule(['-m', 'mark', '!', '--mark', `${mark}/${mark}`], target('RETURN')),
    ['-j', 'MARK', '--xor-mark', mark],
    ...masquerade(config, comment('kubernetes service traffic requiring SNAT')),
  ];
}

/**
 * --to-ports requires a protocol with ports, so each protocol has a rule. Without a port range, the kernel may choose a
 * node port as source port, and IPVS would treat the replies as new requests.
 */
function masquerade({ masqueradePorts, randomFully }: MasqueradeConfig, matches: Rule): readonly Rule[] {
  const random = randomFully ? ['--random-fully'] : [];
  const plain = rule(matches, target('MASQUERADE'), random);
  if (masqueradePorts === undefined) return [plain];
  const range = ['--to-ports', `${masqueradePorts.from}-${masqueradePorts.to}`];
  const limited = Object.keys(PROTOCOL_NUMBER).map((protocol) =>
    rule(['-p', protocol.toLowerCase()], matches, target('MASQUERADE'), range, random),
  );
  return [...limited, plain];
}
