import { beforeEach, describe, expect, test } from '@jest/globals';
import { estimationRuns, setEstimation } from '../../../../src/daemon/startup/estimation.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { TestLog } from '../../../support/reconciling.ts';

const KEY = 'net/ipv4/vs/run_estimation';

let kernel: FakeKernel;
let log: TestLog;

beforeEach(() => {
  kernel = new FakeKernel();
  log = new TestLog();
});

describe('estimation', () => {
  test('is left as it is unless told otherwise', async () => {
    kernel.sysctls.set(KEY, '0');
    await setEstimation(kernel, undefined, log);
    expect(kernel.sysctls.get(KEY)).toBe('0');
    expect(log.lines).toEqual([]);
  });

  test('is stopped and started, written on a difference only', async () => {
    await setEstimation(kernel, true, log);
    expect(kernel.counters.writes).toBe(0);
    await setEstimation(kernel, false, log);
    expect(kernel.sysctls.get(KEY)).toBe('0');
    expect(await estimationRuns(kernel)).toBe(false);
    expect(log.lines).toContainEqual(expect.stringContaining('traffic counters and rates do not change'));
    await setEstimation(kernel, false, log);
    expect(kernel.counters.writes).toBe(1);
    await setEstimation(kernel, true, log);
    expect(await estimationRuns(kernel)).toBe(true);
  });

  test('always runs where the kernel is too old for the sysctl, which is said', async () => {
    kernel.sysctls.delete(KEY);
    await setEstimation(kernel, false, log);
    expect(log.lines).toEqual([
      'warn: this kernel has no sysctl net.ipv4.vs.run_estimation: --ipvs-run-estimation has no effect',
    ]);
    expect(await estimationRuns(kernel)).toBe(true);
  });
});
