import { COUNTERS, type VirtualServerStats, eachCounter } from '../../state/server-stats.ts';
import type { SysctlFiles } from '../linux/sysctl.ts';

/** ip_vs_ctl.c: ip_vs_stats_show(). The totals of the network namespace, of all virtual servers since ip_vs was loaded. */
const PATH = '/proc/net/ip_vs_stats';

/** Returns undefined if ip_vs is not loaded. */
export async function readTrafficTotals(files: Pick<SysctlFiles, 'read'>): Promise<VirtualServerStats | undefined> {
  const text = await files.read(PATH);
  return text === undefined ? undefined : parseTrafficTotals(text);
}

/** The totals: the first line after the header, in hexadecimal. Undefined for any other text. */
function parseTrafficTotals(text: string): VirtualServerStats | undefined {
  const line = text.split('\n').find((each) => /^\s*[0-9A-F]+(\s+[0-9A-F]+){4}\s*$/.test(each));
  if (line === undefined) return undefined;
  const numbers = line.trim().split(/\s+/);
  return eachCounter((counter) => Number.parseInt(numbers[COUNTERS.indexOf(counter)] ?? '', 16));
}
