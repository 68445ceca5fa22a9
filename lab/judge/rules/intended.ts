import { type Case, type Objects, objectsAt } from '../case/case.ts';
import type { Facts, Mismatch, NamedDifference } from '../compare.ts';
import type { Fate } from '../../../test/trace/trace.ts';
import { fateOfText, fateText } from './fate-text.ts';
import { type Probe, probesAt } from './probes.ts';

/** What an intended difference may look at: one packet, and one result of upstream. */
export interface Situation {
  readonly given: Case;
  /** The objects that exist after the step. */
  readonly objects: Objects;
  readonly probe: Probe;
  /** What becomes of the packet with our rules. */
  readonly ours: Fate;
  /** What becomes of other packets after the same step, with upstream's rules. */
  readonly theirsOf: (wanted: (other: Probe) => boolean) => readonly { readonly probe: Probe; readonly fate: Fate }[];
}

/** An intended difference, as what it makes of upstream's result: nothing else is covered by it. */
export interface IntendedChange extends NamedDifference {
  /** Returns the fate that is meant in place of upstream's; the same one if the difference does not concern it. */
  readonly change: (theirs: Fate, situation: Situation) => Fate;
}

/**
 * Returns the names of the intended differences that together make upstream's result ours; undefined if they do not. All
 * that concern a packet change upstream's result, one after the other; what comes out must be our result.
 */
export function explain(changes: readonly IntendedChange[], mismatch: Mismatch): readonly string[] | undefined {
  for (const facts of mismatch.theirsAll) {
    const situation = situationOf(mismatch, facts);
    let fate = fateOfText(facts.get(mismatch.fact) ?? '');
    const names: string[] = [];
    for (const { name, change } of changes) {
      const changed = change(fate, situation);
      if (fateText(changed) !== fateText(fate)) names.push(name);
      fate = changed;
    }
    if (fateText(fate) === mismatch.ours) return names;
  }
  return undefined;
}

function situationOf({ given, step, fact, ours = '' }: Mismatch, facts: Facts): Situation {
  const probes = probesAt(given, step);
  const probe = probes.find((each) => each.fact === fact);
  if (probe === undefined) throw new Error(`no such packet: ${fact}`);
  return {
    given,
    objects: objectsAt(given, step),
    probe,
    ours: fateOfText(ours),
    theirsOf: (wanted) =>
      probes.filter(wanted).map((other) => ({ probe: other, fate: fateOfText(facts.get(other.fact) ?? '') })),
  };
}
