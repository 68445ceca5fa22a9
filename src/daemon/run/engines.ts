import { type EngineReport, sumOfReports } from '../../userspace/engine-report.ts';

type ReadEngine = () => Promise<EngineReport | undefined>;

/** The user-space engines of this process: one for node ports at loopback addresses and, in userspace mode, one for all others. */
export class Engines {
  readonly #engines: ReadEngine[] = [];

  add(read: ReadEngine): void {
    this.#engines.push(read);
  }

  /** Returns the sums of all engines; undefined while none runs. */
  async report(): Promise<EngineReport | undefined> {
    const reports = await Promise.all(this.#engines.map((read) => read()));
    const running = reports.filter((report) => report !== undefined);
    return running.length === 0 ? undefined : sumOfReports(running);
  }
}
