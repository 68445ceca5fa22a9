import type { EngineReports } from '../../observe/engine-metrics.ts';
import { type EngineReport, sumOfReports } from '../../userspace/engine-report.ts';

type ReadEngine = () => Promise<EngineReport | undefined>;

/** The user-space engines of this process: one for node ports at loopback addresses and, in userspace mode, one for all others. */
export class Engines {
  readonly #engines = new Map<'local' | 'mode', ReadEngine>();

  set(of: 'local' | 'mode', read: ReadEngine): void {
    this.#engines.set(of, read);
  }

  async reports(): Promise<EngineReports> {
    const [local, ofMode] = await Promise.all((['local', 'mode'] as const).map((of) => this.#read(of)));
    const running = [local, ofMode].filter((report) => report !== undefined);
    return { all: running.length === 0 ? undefined : sumOfReports(running), local };
  }

  async #read(of: 'local' | 'mode'): Promise<EngineReport | undefined> {
    return await this.#engines.get(of)?.();
  }
}
