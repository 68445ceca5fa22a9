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
  test('estimation is left unchanged without the flag', async () => {
    kernel.sysctls.set(KEY, '0');
    await setEstimation(kernel, undefined, log);
    expect(kernel.sysctls.get(KEY)).toBe('0');
    expect(log.lines).toEqual([]);
  });

  test('estimation is stopped and started, and the sysctl is written only if it differs', async () => {
    await setEstimation(kernel, true, log);
    expect(kernel.counters.writes).toBe(0);
    await setEstimation(kernel, false, log);
    expect(kernel.sysctls.get(KEY)).toBe('0');
    expect(await estimationRuns(kernel)).toBe(false);
    expect(log.lines).toContainEqual(expect.stringContaining('does not update its IPVS traffic counters and rates'));
    await setEstimation(kernel, false, log);
    expect(kernel.counters.writes).toBe(1);
    await setEstimation(kernel, true, log);
    expect(await estimationRuns(kernel)).toBe(true);
  });

  test('on a kernel without the sysctl, estimation always runs, and the log says so', async () => {
    kernel.sysctls.delete(KEY);
    await setEstimation(kernel, false, log);
    expect(log.lines).toEqual([
      'warn: this kernel has no sysctl net.ipv4.vs.run_estimation: --ipvs-run-estimation has no effect',
    ]);
    expect(await estimationRuns(kernel)).toBe(true);
  });
});
