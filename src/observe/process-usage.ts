import { readFileSync, readdirSync } from 'node:fs';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

/** What the kernel says about this process; undefined where it would not say. */
export interface ProcessUsage {
  readonly cpuSeconds: number;
  readonly residentBytes: number;
  readonly virtualBytes: number | undefined;
  /** -1: unlimited. */
  readonly virtualMaxBytes: number | undefined;
  readonly openFds: number | undefined;
  readonly maxFds: number | undefined;
  readonly startTimeSeconds: number;
  /** JavaScript's heap, by its spaces; the most that all may take together; and what objects hold outside of it, buffers included. */
  readonly heapUsedBytes: number;
  readonly heapTotalBytes: number;
  readonly heapLimitBytes: number;
  readonly externalBytes: number;
  readonly heapSpaces: readonly HeapSpace[];
}

export interface HeapSpace {
  /** As V8 names it, without "_space": "old", "new", "large_object". */
  readonly name: string;
  readonly usedBytes: number;
  readonly totalBytes: number;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The soft limit in a line of /proc/self/limits, such as "Max open files  1024  4096  files". */
function softLimit(limits: string, name: string): number | undefined {
  const value = new RegExp(`^${name} +(\\S+)`, 'm').exec(limits)?.[1];
  if (value === 'unlimited') return -1;
  return value === undefined ? undefined : Number(value);
}

function countFds(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined;
  }
}

/** Reads /proc/self (proc(5): status, limits, fd) and what Node and V8 count themselves. */
export function readProcessUsage(): ProcessUsage {
  const { user, system } = process.cpuUsage();
  const limits = readText('/proc/self/limits') ?? '';
  const virtualKiB = /^VmSize:\s+(\d+) kB/m.exec(readText('/proc/self/status') ?? '')?.[1];
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  return {
    cpuSeconds: (user + system) / 1e6,
    residentBytes: rss,
    virtualBytes: virtualKiB === undefined ? undefined : Number(virtualKiB) * 1024,
    virtualMaxBytes: softLimit(limits, 'Max address space'),
    openFds: countFds(),
    maxFds: softLimit(limits, 'Max open files'),
    startTimeSeconds: performance.timeOrigin / 1000,
    heapUsedBytes: heapUsed,
    heapTotalBytes: heapTotal,
    heapLimitBytes: getHeapStatistics().heap_size_limit,
    externalBytes: external,
    heapSpaces: getHeapSpaceStatistics().map((space) => ({
      name: space.space_name.replace(/_space$/, ''),
      usedBytes: space.space_used_size,
      totalBytes: space.space_size,
    })),
  };
}
