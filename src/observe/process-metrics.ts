import { readFileSync, readdirSync } from 'node:fs';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import { type MetricSet, setTotal } from './metric-set.ts';
import type { PROXY_METRICS } from './metric-table.ts';

/** Returns undefined if `read` fails, for instance because all file descriptors are in use. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function readText(path: string): string {
  return attempt(() => readFileSync(path, 'utf8')) ?? '';
}

/** Returns a limit of /proc/self/limits ("Max open files  1024  4096  files"); -1 if unlimited, undefined if absent. */
function softLimit(limits: string, name: string): number | undefined {
  const value = new RegExp(`^${name} +(\\S+)`, 'm').exec(limits)?.[1];
  if (value === 'unlimited') return -1;
  return value === undefined ? undefined : Number(value);
}

/** Returns the soft limit of open file descriptors; undefined if unlimited or unknown. */
export function openFilesLimit(): number | undefined {
  const limit = softLimit(readText('/proc/self/limits'), 'Max open files');
  return limit === -1 ? undefined : limit;
}

/** Sets the metrics of this process, from /proc/self (proc(5): status, limits, fd), Node and V8. */
export function measureProcess(metrics: MetricSet<typeof PROXY_METRICS>): void {
  const { user, system } = process.cpuUsage();
  setTotal(metrics.process_cpu_seconds_total, (user + system) / 1e6);
  metrics.process_start_time_seconds.set(performance.timeOrigin / 1000);
  const limits = readText('/proc/self/limits');
  const virtualKiB = /^VmSize:\s+(\d+) kB/m.exec(readText('/proc/self/status'))?.[1];
  const fromProc = [
    [metrics.process_virtual_memory_bytes, virtualKiB === undefined ? undefined : Number(virtualKiB) * 1024],
    [metrics.process_virtual_memory_max_bytes, softLimit(limits, 'Max address space')],
    [metrics.process_open_fds, attempt(() => readdirSync('/proc/self/fd').length)],
    [metrics.process_max_fds, softLimit(limits, 'Max open files')],
  ] as const;
  for (const [gauge, value] of fromProc) if (value !== undefined) gauge.set(value);
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  metrics.process_resident_memory_bytes.set(rss);
  metrics.nodejs_heap_size_used_bytes.set(heapUsed);
  metrics.nodejs_heap_size_total_bytes.set(heapTotal);
  metrics.nodejs_heap_size_limit_bytes.set(getHeapStatistics().heap_size_limit);
  metrics.nodejs_external_memory_bytes.set(external);
  for (const { space_name, space_used_size, space_size } of getHeapSpaceStatistics()) {
    const space = space_name.replace(/_space$/, '');
    metrics.nodejs_heap_space_size_used_bytes.set({ space }, space_used_size);
    metrics.nodejs_heap_space_size_total_bytes.set({ space }, space_size);
  }
}
