import type { EngineReport, EngineTraffic } from '../../userspace/engine-report.ts';
import type { EngineUpdate } from '../../userspace/engine-update.ts';

/** The engine that forwards connections: a worker thread, or one in memory for tests. */
export interface EnginePort {
  /** Resolves when each new listener listens or was refused. */
  apply(update: EngineUpdate): Promise<void>;
  /** Undefined if the engine does not run: it is started again by itself, with all that it had. */
  report(): Promise<Pick<EngineReport, 'refusedListeners'> | undefined>;
  /** Returns the traffic of the ports with these keys, or of all; undefined if the engine does not run. */
  traffic(keys?: readonly string[]): Promise<EngineTraffic | undefined>;
  /** Ends the listeners a moment later, when connections that are being opened have been accepted. */
  stopListening(): Promise<void>;
  /** Resolves when the last connection has ended, or after 10 s. */
  drain(): Promise<void>;
  /** Ends every connection. */
  close(): Promise<void>;
}
