import type { ProxyConfig } from '../config/proxy-config.ts';
import { createCommandRunner } from '../kernel/command-runner.ts';
import { KernelError } from '../kernel/kernel-error.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { Leftovers, describeLeftover } from '../kernel/leftovers.ts';
import { createLinuxKernel } from '../kernel/linux-kernel.ts';
import { IP_FAMILIES } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import { planRules } from '../plan/plan-rules.ts';
import { SET_ROLES, setName } from '../plan/set-names.ts';
import { Ownership } from '../reconcile/ownership.ts';
import type { Op } from '../state/op.ts';
import { formatFailure } from '../state/outcome.ts';
import { transaction } from '../state/transaction.ts';
import { reportFailure } from './failure.ts';
import { planConfigForCleanUp } from './node-identity.ts';
import { openLog } from './open-log.ts';
import { requireRights } from './rights.ts';

const OUR_SETS: ReadonlySet<string> = new Set(SET_ROLES.flatMap((role) => IP_FAMILIES.map((f) => setName(role, f))));

/** Removes what this proxy, or kube-proxy in ipvs mode before it, left in the kernel; resolves with the exit code. */
export async function cleanUp(config: ProxyConfig): Promise<number> {
  const { log } = openLog(config);
  return reportFailure(log, async () => {
    requireRights({ rules: true });
    const kernel = createLinuxKernel({ log: log.child('kernel') });
    try {
      return await removeAll(kernel, new Leftovers(createCommandRunner()), config, log);
    } finally {
      await kernel.close();
    }
  });
}

/** What other modes left goes first, for it refers to chains of ours; then our rules, for they hold on to the sets; then what IPVS has of ours, the device, the sets. Nothing there is fine. */
export async function removeAll(
  kernel: Kernel,
  others: Pick<Leftovers, 'find' | 'remove'>,
  config: ProxyConfig,
  log: Log,
): Promise<number> {
  let failed = 0;
  const attempt = async (what: string, step: () => Promise<void>): Promise<void> => {
    try {
      await step();
    } catch (error) {
      failed += 1;
      log.error(`could not remove ${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await attempt('what other modes of kube-proxy left', async () => {
    for (const leftover of await others.find()) {
      const what = describeLeftover(leftover);
      await attempt(what, async () => {
        await others.remove(leftover);
        log.info(`removed what another mode of kube-proxy left: ${what}`);
      });
    }
  });
  const hasIpvs = await prepare(kernel, log);
  for (const family of IP_FAMILIES) {
    await attempt(`the rules of IPv${family}`, () =>
      kernel.removeRules(planRules(planConfigForCleanUp(config), family)),
    );
  }
  await attempt('virtual servers and sets', async () => {
    const outcome = await kernel.apply(transaction(await leftovers(kernel, config, hasIpvs)));
    failed += outcome.failures.length;
    for (const failure of outcome.failures) log.error(`could not clean up: ${formatFailure(failure)}`);
    log.info('clean-up done', { removed: outcome.attempted - outcome.failures.length, failed });
  });
  await attempt('kube-ipvs0', () => kernel.removeDevice());
  return failed === 0 ? 0 : 1;
}

async function prepare(kernel: Kernel, log: Log): Promise<boolean> {
  try {
    await kernel.prepare();
    return true;
  } catch (error) {
    if (!(error instanceof KernelError) || error.code !== 'MISSING_MODULE') throw error;
    log.info('this kernel has no IPVS loaded: no virtual servers to remove');
    return false;
  }
}

async function leftovers(kernel: Kernel, config: ProxyConfig, hasIpvs: boolean): Promise<Op[]> {
  const sets = await kernel.getSets();
  const ops: Op[] = sets
    .filter((set) => OUR_SETS.has(set.name))
    .map(({ entries: _entries, ...set }) => ({ kind: 'destroy-set', set }));
  for (const { cidr, ours } of await kernel.getLocalRoutes()) if (ours) ops.push({ kind: 'delete-route', cidr });
  if (!hasIpvs) return ops;
  const addresses = await kernel.getBoundAddresses();
  const ownership = new Ownership(sets, addresses, config.excludeCidrs);
  for (const { address, port, protocol } of await kernel.getVirtualServers()) {
    const id = { address, port, protocol };
    if (ownership.owns(id)) ops.push({ kind: 'delete-virtual-server', id });
  }
  return ops;
}
