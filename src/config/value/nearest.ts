import { closestMatch } from 'leven';
import { show } from './problem.ts';

/** Returns the known name closest to a mistyped one, ignoring case; undefined if none is close. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const byLowerCase = new Map(Array.from(known, (each) => [each.toLowerCase(), each]));
  const maxDistance = Math.max(2, Math.ceil(name.length * 0.4));
  return byLowerCase.get(closestMatch(name.toLowerCase(), [...byLowerCase.keys()], { maxDistance }) ?? '');
}

/** Returns the end of a message about an unknown name: ": did you mean ...?", or nothing if no known name is close. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const meant = nearestName(name, known);
  return meant === undefined ? '' : `: did you mean ${show(meant)}?`;
}
