import { runCli } from './cli/cli.ts';

// Everything behind a verb is loaded when it is wanted: --help need not wait for a daemon.
process.exitCode = await runCli(
  process.argv.slice(2),
  {
    run: async (config) => {
      const [{ runDaemon }, { openLog }] = await Promise.all([
        import('./daemon/run.ts'),
        import('./daemon/open-log.ts'),
      ]);
      return runDaemon(config, openLog(config));
    },
    cleanup: async (config) => {
      const [{ cleanUp }, { openLog }] = await Promise.all([
        import('./daemon/cleanup.ts'),
        import('./daemon/open-log.ts'),
      ]);
      return cleanUp(config, openLog(config));
    },
    'init-only': async (config) => {
      const [{ initOnly }, { openLog }] = await Promise.all([
        import('./daemon/init-only.ts'),
        import('./daemon/open-log.ts'),
      ]);
      return initOnly(config, openLog(config));
    },
  },
  {
    out: (line) => process.stdout.write(`${line}\n`),
    err: (line) => process.stderr.write(`${line}\n`),
    columns: process.stdout.columns,
  },
);
