import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import { reportFailure } from '../startup/report-failure.ts';
import { openLog } from '../startup/open-log.ts';

/** Starts a program. `stop` ends it with an exit code as the reason; `started` is disposed at the end. */
export type StartProgram = (
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
) => Promise<void>;

/** Runs until SIGTERM, SIGINT or an abort of `stop`. Resolves to the exit code. @param farewell the last line of the log */
export async function runUntilStopped(config: ProxyConfig, start: StartProgram, farewell: string): Promise<number> {
  const control = openLog(config);
  // Aborted with the exit code as the reason; the first one counts.
  const stop = new AbortController();
  const onSignal = (): void => stop.abort(0);
  process.once('SIGTERM', onSignal).once('SIGINT', onSignal);
  // Everything that was started, to be disposed in reverse order.
  const started = new AsyncDisposableStack();
  let serving = false;
  try {
    return await reportFailure(control.log, async () => {
      await setImmediate();
      await start(config, control, stop, started);
      serving = true;
      if (!stop.signal.aborted) await once(stop.signal, 'abort');
      return stop.signal.reason as number;
    });
  } finally {
    await started.disposeAsync();
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    // A failed start has logged its reason already.
    if (serving) control.log.info(farewell);
  }
}
