import { createIptablesKernel } from '../../kernel/iptables-mode/iptables-kernel.ts';
import type { Mode } from './mode.ts';

/** Chains of iptables. */
export const IPTABLES: Mode = {
  createKernel: createIptablesKernel,
  removeOthers: () => () => undefined,
  // Nothing is watched that could be deleted.
  nameThief: () => undefined,
};
