/** What the demo prints, and what it counts. */
export class Transcript {
  #passed = 0;
  readonly #failed: string[] = [];
  #step = 0;

  step(title: string): void {
    this.#step += 1;
    this.#line(`\n=== ${this.#step}. ${title}`);
  }

  say(text: string): void {
    for (const line of text.trimEnd().split('\n')) this.#line(`    ${line}`);
  }

  /** One claim of the demo; a false one makes it fail. */
  check(claim: string, holds: boolean): void {
    this.#line(`    ${holds ? 'ok  ' : 'FAIL'} ${claim}`);
    if (holds) this.#passed += 1;
    else this.#failed.push(claim);
  }

  /** The closing line; answers the exit code. */
  close(): number {
    if (this.#failed.length === 0) {
      this.#line(`\ndemo: all ${this.#passed} checks passed`);
      return 0;
    }
    this.#line(`\ndemo: ${this.#failed.length} of ${this.#passed + this.#failed.length} checks failed:`);
    for (const claim of this.#failed) this.#line(`  - ${claim}`);
    return 1;
  }

  #line(text: string): void {
    process.stdout.write(`${text}\n`);
  }
}
