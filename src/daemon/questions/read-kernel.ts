import { hostname } from 'node:os';
import { KernelError } from '../../kernel/kernel-error.ts';
import { createLinuxKernelReader } from '../../kernel/linux/linux-kernel.ts';
import type { Log } from '../../observe/log.ts';
import { SYSTEM_CLOCK } from '../../reconcile/clock.ts';
import { requireRights } from '../startup/rights.ts';
import { KernelAnswers } from './kernel-answers.ts';
import { QuestionError } from './question-error.ts';

const SILENT: Log = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  enabled: () => false,
  child: () => SILENT,
};

/** Answers questions from the kernel of this machine, and closes it. Throws if it cannot be read. */
export async function readKernel<T>(work: (answers: KernelAnswers) => Promise<T>): Promise<T> {
  requireRights({ rules: false });
  const kernel = createLinuxKernelReader({ log: SILENT });
  try {
    return await work(new KernelAnswers(hostname().trim().toLowerCase(), kernel, SYSTEM_CLOCK));
  } catch (error) {
    if (!(error instanceof KernelError) || error.code !== 'MISSING_MODULE') throw error;
    throw new QuestionError(503, 'the kernel module ip_vs is not loaded, so that there are no virtual servers');
  } finally {
    await kernel.close();
  }
}
