import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodeSettings } from '../../reconcile/node/node-settings.ts';
import { setSysctl } from './set-sysctl.ts';

const KEY = 'net/ipv4/vs/run_estimation';

/**
 * Sets net.ipv4.vs.run_estimation, and returns the sysctls to keep. Every two seconds, the kernel's estimator walks all
 * virtual and real servers, computes rates and sums the per-CPU counters. While it is stopped (0), the readable
 * counters do not change. Connection counts are kept elsewhere and stay current.
 *
 * @param wanted undefined: the sysctl is not changed
 */
export async function setEstimation(
  kernel: Kernel,
  wanted: boolean | undefined,
  log: Log,
): Promise<NodeSettings['sysctls']> {
  if (wanted === undefined) return [];
  if ((await kernel.getSysctl(KEY)) === undefined) {
    // On kernels without the sysctl, estimation always runs.
    log.warn('this kernel has no sysctl net.ipv4.vs.run_estimation: --ipvs-run-estimation has no effect');
    return [];
  }
  const value = wanted ? '1' : '0';
  await setSysctl(kernel, KEY, value, log);
  if (!wanted) {
    log.info('the kernel does not update its IPVS traffic counters and rates, because --ipvs-run-estimation is false');
  }
  return [[KEY, value]];
}

/** Returns the sysctl that setEstimation would set. Only reads. */
export async function wantedEstimation(
  kernel: Pick<KernelReader, 'getSysctl'>,
  wanted: boolean | undefined,
): Promise<NodeSettings['sysctls']> {
  return wanted === undefined || (await kernel.getSysctl(KEY)) === undefined ? [] : [[KEY, wanted ? '1' : '0']];
}

/** Returns whether the kernel updates its counters: the sysctl is not 0, or does not exist. */
export async function estimationRuns(kernel: Pick<KernelReader, 'getSysctl'>): Promise<boolean> {
  return (await kernel.getSysctl(KEY)) !== '0';
}
