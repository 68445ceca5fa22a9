/** What another mode can leave on this node. */
export type LeftoverKind = 'rules of other modes' | 'ipvs mode';

/** What other modes left on this node, and what keeps it here: for `status` and a metric. */
export class KnownLeftovers {
  readonly #texts = new Map<LeftoverKind, string>();
  readonly #onChange: (isAnyLeft: boolean) => void;

  constructor(onChange: (isAnyLeft: boolean) => void = () => undefined) {
    this.#onChange = onChange;
    for (const kind of ['rules of other modes', 'ipvs mode'] as const) this.set(kind, 'after the first sync');
  }

  /** @param why why it is not removed yet, or when that is tried */
  set(kind: LeftoverKind, why: string): void {
    this.#texts.set(kind, why);
    this.#onChange(true);
  }

  /** This node has nothing of it, as far as is known. */
  remove(kind: LeftoverKind): void {
    this.#texts.delete(kind);
    this.#onChange(this.#texts.size > 0);
  }

  get texts(): readonly string[] {
    return Array.from(this.#texts, ([kind, why]) => `${kind}: ${why}`);
  }
}
