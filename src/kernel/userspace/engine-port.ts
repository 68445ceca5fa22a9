import type { EngineReport } from '../../userspace/engine-report.ts';
import type { EngineUpdate } from '../../userspace/engine-update.ts';

/** The engine that forwards connections: a worker thread, or one in memory for tests. */
export interface EnginePort {
  /** Resolves when each new listener listens or was refused. */
  apply(update: EngineUpdate): Promise<void>;
  /** Undefined if the engine does not run: it is started again by itself, with all that it had. */
  report(): Promise<Pick<EngineReport, 'refusedListeners'> | undefined>;
  /** Ends every connection. */
  close(): Promise<void>;
}
