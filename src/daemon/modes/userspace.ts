import type { Log } from '../../observe/log/log.ts';
import { createUserspaceKernel, createUserspaceKernelReader } from '../../kernel/userspace/userspace-kernel.ts';
import { previewOfNothing } from '../../kernel/userspace/preview.ts';
import { DEFAULT_LIMITS, type EngineLimits } from '../../userspace/engine-limits.ts';
import { EngineThread } from '../../userspace/engine-thread.ts';
import type { Mode } from './mode.ts';
import { NFTABLES } from './nftables.ts';

/** The user-space engine forwards connections. The tables of nftables mode lead to it. */
export const USERSPACE: Mode = {
  ...NFTABLES,
  createKernel: (options) =>
    createUserspaceKernel(options, () => {
      const engine = openEngine(options.log.child('engine'), options.engineLimits ?? DEFAULT_LIMITS);
      options.onEngine?.(() => engine.report());
      return engine;
    }),
  createReader: createUserspaceKernelReader,
  previewOfNothing,
};

function openEngine(log: Log, limits: EngineLimits): EngineThread {
  return new EngineThread({
    limits,
    // The mode's kernel finds the refusal in the report, and tries another port.
    onRefused: ({ port, code }) => log.debug(1, 'another program has a port of the engine', { port, code }),
    onFailure: (reason) =>
      log.error(
        `the engine that forwards connections ended, and is started again; its connections are broken: ${reason}`,
      ),
  });
}
