import type { IpFamily } from '../../../base/ip.ts';
import { masqueradeRules, hexMark } from '../../../state/rules/masquerade-rules.ts';
import type { PlanConfig } from '../../plan-config.ts';
import { type Rule, comment, inSet, rule, target } from './planned-rule.ts';

type MasqueradeConfig = Pick<PlanConfig, 'masqueradeMark' | 'masqueradePorts' | 'randomFully'>;

/**
 * nat KUBE-POSTROUTING: masquerades hairpin connections and marked packets, and clears the mark. Without a port range, the kernel may
 * choose a node port as source port, and IPVS would treat the replies as new requests.
 */
export function postroutingChain(config: MasqueradeConfig, family: IpFamily): readonly Rule[] {
  const mark = hexMark(config.masqueradeMark);
  return [
    ...masqueradeRules(
      config,
      rule(comment('a pod that is its own endpoint'), inSet('LOOP-BACK', family, 'dst,dst,src')),
    ),
    rule(['-m', 'mark', '!', '--mark', `${mark}/${mark}`], target('RETURN')),
    ['-j', 'MARK', '--xor-mark', mark],
    ...masqueradeRules(config, comment('kubernetes service traffic requiring SNAT')),
  ];
}
