/** What another mode can leave on this node. */
export type Remain = 'rules of other modes' | 'ipvs mode';

/** What other modes left on this node, and what keeps it here: for `status` and a metric. */
export class Remains {
  readonly #texts = new Map<Remain, string>();
  readonly #onChange: (isAnyLeft: boolean) => void;

  constructor(onChange: (isAnyLeft: boolean) => void = () => undefined) {
    this.#onChange = onChange;
    for (const remain of ['rules of other modes', 'ipvs mode'] as const) this.set(remain, 'after the first sync');
  }

  /** @param why why it is not removed yet, or when that is tried */
  set(remain: Remain, why: string): void {
    this.#texts.set(remain, why);
    this.#onChange(true);
  }

  /** This node has nothing of it, as far as is known. */
  remove(remain: Remain): void {
    this.#texts.delete(remain);
    this.#onChange(this.#texts.size > 0);
  }

  get texts(): readonly string[] {
    return Array.from(this.#texts, ([remain, why]) => `${remain}: ${why}`);
  }
}
