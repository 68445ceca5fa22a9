import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../observe/log.ts';

const KEY = 'net/ipv4/vs/run_estimation';

/**
 * The kernel's estimator walks every virtual and every real server, each two seconds: rates are computed there, and what each CPU has
 * counted is added up. Where it is stopped (net.ipv4.vs.run_estimation 0), the counters that can be read stand still until it runs again;
 * numbers of connections are kept elsewhere and go on.
 *
 * @param wanted undefined: left as it is
 */
export async function setEstimation(kernel: Kernel, wanted: boolean | undefined, log: Log): Promise<void> {
  if (wanted === undefined) return;
  if ((await kernel.getSysctl(KEY)) === undefined) {
    // Older than the sysctl: it always runs there.
    log.warn('this kernel has no sysctl net.ipv4.vs.run_estimation: --ipvs-run-estimation does nothing');
    return;
  }
  const { changed, before } = await kernel.setSysctl(KEY, wanted ? '1' : '0');
  if (changed) log.info('sysctl net.ipv4.vs.run_estimation set', { value: wanted ? '1' : '0', before });
  if (!wanted) log.info("IPVS estimation is stopped: the kernel's traffic counters and rates stand still");
}

/** Whether counters move now. Any value but 0 has it run; a kernel without the sysctl has no way to stop it. */
export async function estimationRuns(kernel: Pick<Kernel, 'getSysctl'>): Promise<boolean> {
  return (await kernel.getSysctl(KEY)) !== '0';
}
