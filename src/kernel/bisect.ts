/** How units are written together, and divided if some are refused. */
export interface PartWriting<U, R> {
  /** Returns why none of the units was written; undefined if all were. */
  readonly write: (units: readonly U[]) => Promise<R | undefined>;
  /** Whether all others would be refused, too. Then nothing more is written. */
  readonly isOfAll: (refusal: R) => Promise<boolean>;
  /** How several refused units are divided; default: into halves. */
  readonly divide?: (units: readonly U[], refusal: R) => Division<U>;
  /** Whether units must be written in their order. Otherwise, parts of refused units wait until all others are written. */
  readonly inOrder: boolean;
}

export interface Division<U> {
  /** The units that are known to be at fault. */
  readonly atFault: readonly U[];
  /** The others. */
  readonly parts: readonly (readonly U[])[];
}

export interface Bisected<U, R> {
  readonly refused: readonly { readonly units: readonly U[]; readonly refusal: R }[];
  /** The refusal after which nothing more was written. The units that were left are among those refused. */
  readonly stoppedBy: R | undefined;
}

/** Writes parts. Units of a part that is refused are written in smaller parts, so that those not at fault come into force. */
export async function bisect<U, R>(
  parts: Iterable<readonly U[]>,
  { write, isOfAll, divide = halves, inOrder }: PartWriting<U, R>,
): Promise<Bisected<U, R>> {
  const refused: { readonly units: readonly U[]; readonly refusal: R }[] = [];
  const queue = [...parts];
  for (let at = 0; at < queue.length; at++) {
    const units = queue[at] ?? [];
    const refusal = await write(units);
    if (refusal === undefined) continue;
    if (await isOfAll(refusal)) {
      refused.push({ units: queue.slice(at).flat(), refusal });
      return { refused, stoppedBy: refusal };
    }
    const { atFault, parts: divided } = units.length < 2 ? { atFault: units, parts: [] } : divide(units, refusal);
    if (atFault.length > 0) refused.push({ units: atFault, refusal });
    queue.splice(inOrder ? at + 1 : queue.length, 0, ...divided.filter(({ length }) => length > 0));
  }
  return { refused, stoppedBy: undefined };
}

/** Divides units, of which nothing is known, in the middle. */
export function halves<U>(units: readonly U[]): Division<U> {
  const half = Math.ceil(units.length / 2);
  return { atFault: [], parts: [units.slice(0, half), units.slice(half)] };
}
