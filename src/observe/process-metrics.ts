import type { MetricSet } from './metric-set.ts';
import { readProcessUsage } from './process-usage.ts';

/** Sets the metrics of this process to what they are now. */
export function measureProcess(metrics: MetricSet): void {
  const usage = readProcessUsage();
  metrics.processCpu.reset();
  metrics.processCpu.inc(usage.cpuSeconds);
  metrics.processResident.set(usage.residentBytes);
  metrics.processStart.set(usage.startTimeSeconds);
  if (usage.virtualBytes !== undefined) metrics.processVirtual.set(usage.virtualBytes);
  if (usage.virtualMaxBytes !== undefined) metrics.processVirtualMax.set(usage.virtualMaxBytes);
  if (usage.openFds !== undefined) metrics.processOpenFds.set(usage.openFds);
  if (usage.maxFds !== undefined) metrics.processMaxFds.set(usage.maxFds);
  metrics.heapUsed.set(usage.heapUsedBytes);
  metrics.heapTotal.set(usage.heapTotalBytes);
  metrics.heapLimit.set(usage.heapLimitBytes);
  metrics.external.set(usage.externalBytes);
  for (const { name, usedBytes, totalBytes } of usage.heapSpaces) {
    metrics.heapSpaceUsed.set({ space: name }, usedBytes);
    metrics.heapSpaceTotal.set({ space: name }, totalBytes);
  }
}
