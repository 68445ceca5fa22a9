import { setImmediate } from 'node:timers/promises';
import { runCli } from './cli/cli.ts';

/** The exit status of a program that SIGPIPE ends. */
const CLOSED_PIPE = 141;

// Each action imports its code only when it runs, so that --help does not load the daemon.
const exitCode = runCli(
  process.argv.slice(2),
  {
    run: async (config) => {
      // Yields to the event loop between loading the program and loading the daemon, for signals and timers.
      await setImmediate();
      const { runDaemon } = await import('./daemon/run/run.ts');
      return runDaemon(config);
    },
    'dry-run': async (config) => {
      const { runShadow } = await import('./daemon/shadow/run-shadow.ts');
      return runShadow(config);
    },
    cleanup: async (config) => {
      const { cleanUp } = await import('./daemon/clean-up.ts');
      return cleanUp(config);
    },
    'init-only': async (config) => {
      const { initOnly } = await import('./daemon/init-only.ts');
      return initOnly(config);
    },
    command: async (argv, terminal) => {
      // Whoever reads what is printed, such as `head`, may have read enough.
      process.stdout.once('error', () => process.exit(CLOSED_PIPE));
      const { runCommand } = await import('./command/program/run-command.ts');
      return runCommand(argv, terminal, process);
    },
  },
  {
    out: (line) => process.stdout.write(`${line}\n`),
    err: (line) => process.stderr.write(`${line}\n`),
    columns: () => process.stdout.columns,
  },
);
// No top-level await, because the bundle is a script, not a module (scripts/bundle.ts). A rejection ends the process.
void exitCode.then((code) => {
  process.exitCode = code;
});
