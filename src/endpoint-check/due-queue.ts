interface Entry<T> {
  readonly item: T;
  readonly at: number;
}

/** Items in the order of their times: a binary heap that knows the place of each item. */
export class DueQueue<T> {
  readonly #heap: Entry<T>[] = [];
  readonly #places = new Map<T, number>();

  /** Adds an item, or changes its time. */
  set(item: T, at: number): void {
    this.delete(item);
    this.#rise({ item, at }, this.#heap.length);
  }

  delete(item: T): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    this.#places.delete(item);
    const last = this.#heap.pop();
    if (last === undefined || place === this.#heap.length) return;
    this.#sink(last, place);
    this.#rise(last, this.#places.get(last.item) ?? place);
  }

  /** Returns the earliest time; Infinity if empty. */
  get nextAt(): number {
    return this.#heap[0]?.at ?? Infinity;
  }

  /** Removes and returns the earliest item if its time has come. */
  take(now: number): T | undefined {
    const [first] = this.#heap;
    if (first === undefined || first.at > now) return undefined;
    this.delete(first.item);
    return first.item;
  }

  #rise(entry: Entry<T>, from: number): void {
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = this.#heap[parent];
      if (above === undefined || above.at <= entry.at) break;
      this.#put(above, place);
      place = parent;
    }
    this.#put(entry, place);
  }

  #sink(entry: Entry<T>, from: number): void {
    let place = from;
    for (;;) {
      const left = 2 * place + 1;
      const child = this.#at(left + 1) < this.#at(left) ? left + 1 : left;
      const below = this.#heap[child];
      if (below === undefined || below.at >= entry.at) break;
      this.#put(below, place);
      place = child;
    }
    this.#put(entry, place);
  }

  #at(place: number): number {
    return this.#heap[place]?.at ?? Infinity;
  }

  #put(entry: Entry<T>, place: number): void {
    this.#heap[place] = entry;
    this.#places.set(entry.item, place);
  }
}
