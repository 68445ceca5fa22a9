import { type IpFamily, familyOf } from '../../../src/base/ip.ts';
import type { Case } from '../case/case.ts';
import type { Facts } from '../compare.ts';
import type { Ruleset } from '../trace/ruleset.ts';
import { type Fate, endText, trace } from '../trace/trace.ts';
import { probesAt } from './probes.ts';

/** What becomes of each packet that is tried after a step. */
export function fatesOf(rulesets: Readonly<Record<IpFamily, Ruleset>>, given: Case, step: number): Facts {
  return new Map(
    probesAt(given, step).map(({ fact, packet, node }) => [
      fact,
      fateText(trace(rulesets[familyOf(packet.destination)], packet, node)),
    ]),
  );
}

/** For example "0.5 translated to 10.244.0.1:8080 | 0.5 translated to 10.244.0.2:8080, masqueraded". */
function fateText(fate: Fate): string {
  return fate
    .map(({ value, probability }) => `${Number(probability.toFixed(4))} ${endText(value)}`)
    .sort()
    .join(' | ');
}
