import type { KernelReader } from './kernel.ts';

/** Every method of KernelReader; the compiler requires all of them, and allows no other. */
const READS = {
  getVirtualServers: true,
  getVirtualServerStats: true,
  findVirtualServers: true,
  getRealServers: true,
  confirmRealServers: true,
  getRealServerStats: true,
  getSets: true,
  findSets: true,
  getBoundAddresses: true,
  getLocalRoutes: true,
  findRoutes: true,
  findUnforwarded: true,
  getNodeAddresses: true,
  getUdpFlows: true,
  getFlowSources: true,
  findRuleVariant: true,
  compareRules: true,
  forgetReadings: true,
  preview: true,
  listTables: true,
  getOtherRules: true,
  getTrafficTotals: true,
  getSysctl: true,
  getIpvsTimeouts: true,
  watchNode: true,
  close: true,
} as const satisfies Record<Exclude<keyof KernelReader, 'counters' | 'mode'>, true>;

/** Returns an object with only the methods of a kernel that read: those that write do not exist in it. */
export function readOnlyKernel(kernel: KernelReader): KernelReader {
  const methods = (Object.keys(READS) as (keyof typeof READS)[]).map(
    (name) => [name, kernel[name].bind(kernel)] as const,
  );
  const reads = Object.fromEntries(methods) as unknown as Omit<KernelReader, 'counters' | 'mode'>;
  return Object.freeze({
    ...reads,
    mode: kernel.mode,
    get counters() {
      return kernel.counters;
    },
  });
}
