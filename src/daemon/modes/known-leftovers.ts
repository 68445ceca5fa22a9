/** The kinds of leftovers of other modes. */
export type LeftoverKind = 'rules of other modes' | 'ipvs mode';

/** Leftovers of other modes on this node, each with the reason why it is still there: for `status` and a metric. */
export class KnownLeftovers {
  readonly #texts = new Map<LeftoverKind, string>();
  readonly #onChange: (isAnyLeft: boolean) => void;

  constructor(onChange: (isAnyLeft: boolean) => void = () => undefined) {
    this.#onChange = onChange;
    for (const kind of ['rules of other modes', 'ipvs mode'] as const) this.set(kind, 'after the first sync');
  }

  /** @param why why it is not removed yet, or when the next attempt is */
  set(kind: LeftoverKind, why: string): void {
    this.#texts.set(kind, why);
    this.#onChange(true);
  }

  /** Must be called when this node has no such leftover, as far as is known. */
  remove(kind: LeftoverKind): void {
    this.#texts.delete(kind);
    this.#onChange(this.#texts.size > 0);
  }

  get texts(): readonly string[] {
    return Array.from(this.#texts, ([kind, why]) => `${kind}: ${why}`);
  }
}
