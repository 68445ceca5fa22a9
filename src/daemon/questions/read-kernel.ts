import { hostname } from 'node:os';
import { KernelError } from '../../kernel/kernel-error.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { createIpvsKernelReader } from '../../kernel/ipvs/ipvs-kernel.ts';
import { createNftablesKernelReader } from '../../kernel/nftables/nftables-kernel.ts';
import { proxyTables } from '../../kernel/nftables/proxy-tables.ts';
import type { Log } from '../../observe/log/log.ts';
import { SYSTEM_CLOCK } from '../../reconcile/timing/clock.ts';
import { nftTable } from '../../state/nft-table.ts';
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

/**
 * Answers questions from the kernel of this machine, and closes it: from our tables of nf_tables if it has them, because
 * these handle new connections first, else from IPVS. Throws if it cannot be read.
 */
export async function readKernel<T>(work: (answers: KernelAnswers) => Promise<T>): Promise<T> {
  requireRights({ rules: false });
  const kernel = await openKernel();
  try {
    return await work(new KernelAnswers(hostname().trim().toLowerCase(), kernel, SYSTEM_CLOCK));
  } catch (error) {
    if (!(error instanceof KernelError) || error.code !== 'MISSING_MODULE') throw error;
    throw new QuestionError(503, 'the kernel module ip_vs is not loaded, so that there are no virtual servers');
  } finally {
    await kernel.close();
  }
}

async function openKernel(): Promise<KernelReader> {
  const states = await proxyTables().states();
  const whose = new Set(states.values());
  if (whose.has('ours')) return createNftablesKernelReader({ log: SILENT });
  const kernel = createIpvsKernelReader({ log: SILENT });
  if (whose.size === 0 || (await kernel.getBoundAddresses()).length > 0) return kernel;
  await kernel.close();
  const tables = Array.from(states.keys(), nftTable);
  throw new QuestionError(400, foreignTables(tables));
}

/** Returns the error text for a node that has such tables, probably of kube-proxy in nftables mode. */
function foreignTables(tables: readonly string[]): string {
  const [first = ''] = tables;
  return (
    `no daemon runs here, and this node has ${tables.map((name) => `table ${name}`).join(' and ')} of another program, ` +
    `probably of kube-proxy in nftables mode: \`nft list table ${first}\` shows what it serves`
  );
}
