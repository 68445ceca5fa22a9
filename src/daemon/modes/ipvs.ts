import { createCommandRunner } from '../../kernel/command-runner.ts';
import { Leftovers } from '../../kernel/leftovers/leftovers.ts';
import { createIpvsKernel, createIpvsKernelReader } from '../../kernel/ipvs/ipvs-kernel.ts';
import { toolCommands } from '../../state/commands/write-preview.ts';
import type { Mode, ModeParts } from './mode.ts';
import { logDeviceDeleter, removeLeftovers } from './other-modes.ts';

function leftoversOf({ onProgram }: ModeParts): Leftovers {
  return new Leftovers(createCommandRunner({ onStart: onProgram }));
}

/** IPVS, ipset and a few iptables rules. */
export const IPVS: Mode = {
  createKernel: createIpvsKernel,
  createReader: createIpvsKernelReader,
  // The rules are the same whatever the Services are.
  previewOfNothing: (_rules, parts) => Promise.resolve({ rules: [], parts: parts.map(toolCommands) }),
  removeOthers: (parts) => {
    parts.knownLeftovers.remove('ipvs mode');
    void removeLeftovers(leftoversOf(parts), parts.log, parts);
    return () => undefined;
  },
  logDeleter: (parts) => void logDeviceDeleter(leftoversOf(parts), parts.log),
};
