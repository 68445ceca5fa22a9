import { setImmediate } from 'node:timers/promises';
import { runCli } from './cli/cli.ts';

// Everything behind a verb is loaded when it is wanted: --help need not wait for a daemon.
const exitCode = runCli(
  process.argv.slice(2),
  {
    run: async (config) => {
      // Loading the program, loading the daemon and starting it have a turn of the event loop each: signals and timers are in between.
      await setImmediate();
      const { runDaemon } = await import('./daemon/run.ts');
      return runDaemon(config);
    },
    cleanup: async (config) => {
      const { cleanUp } = await import('./daemon/clean-up.ts');
      return cleanUp(config);
    },
    'init-only': async (config) => {
      const { initOnly } = await import('./daemon/init-only.ts');
      return initOnly(config);
    },
  },
  {
    out: (line) => process.stdout.write(`${line}\n`),
    err: (line) => process.stderr.write(`${line}\n`),
    columns: () => process.stdout.columns,
  },
);
// Not awaited: the bundle is a script, not a module (scripts/bundle.ts). What rejects ends the process all the same.
void exitCode.then((code) => {
  process.exitCode = code;
});
