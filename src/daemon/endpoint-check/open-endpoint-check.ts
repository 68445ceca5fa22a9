import type { EndpointCheckMode } from '../../base/endpoint-check-mode.ts';
import { KernelError } from '../../kernel/kernel-error.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import { estimationRuns } from '../startup/estimation.ts';
import { askEndpoint, hasLinkTo } from './ask-endpoint.ts';
import { EndpointChecker, type EndpointCheckerOptions } from './endpoint-checker.ts';
import { readLeftSilent } from './left-silent.ts';

interface OpenOptions extends Pick<EndpointCheckerOptions, 'ownerOf' | 'onJudged' | 'onSilent'> {
  readonly wanted: Exclude<EndpointCheckMode, 'off'>;
  readonly kernel: KernelReader;
  readonly metrics: ProxyMetrics;
  readonly clock: Clock;
  readonly log: Log;
}

/** If the kernel cannot be read, no endpoint is left out, and the first sync reports why. */
async function readLeft(kernel: OpenOptions['kernel'], log: OpenOptions['log']): ReturnType<typeof readLeftSilent> {
  try {
    return await readLeftSilent(kernel);
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    log.warn(`failed to read which endpoints an earlier process found silent: all are used: ${error.message}`);
    return new Map();
  }
}

/** Returns the checker of endpoints, with those that an earlier run found silent. Call it before the first sync. */
export async function openEndpointCheck({
  wanted,
  kernel,
  metrics,
  ...options
}: OpenOptions): Promise<EndpointChecker> {
  const acts = wanted === 'act';
  if (!(await estimationRuns(kernel))) {
    options.log.warn(
      'no endpoint is found silent while net.ipv4.vs.run_estimation is 0: the kernel does not count packets',
    );
  }
  const checker = new EndpointChecker({
    ...options,
    acts,
    kernel,
    left: acts ? await readLeft(kernel, options.log) : new Map(),
    connect: askEndpoint,
    hasLinkTo: (address) => hasLinkTo(address, kernel),
    onConnected: (result) => metrics.endpointAsked(result),
  });
  metrics.observe({ endpoints: () => checker.counts() });
  return checker;
}
