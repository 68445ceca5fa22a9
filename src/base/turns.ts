/** Runs asynchronous work one at a time, in the order of the calls. A failure rejects only its own call. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  async run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work, work);
    this.#last = turn;
    return await turn;
  }
}
