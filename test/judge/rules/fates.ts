import { type IpFamily, familyOf } from '../../../src/base/ip.ts';
import type { Case } from '../case/case.ts';
import type { Facts } from '../compare.ts';
import type { Ruleset } from '../trace/ruleset.ts';
import { trace } from '../trace/trace.ts';
import { fateText } from './fate-text.ts';
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
