import { expect, test } from '@jest/globals';
import { ShadowPublisher } from '../../../../src/daemon/shadow/shadow-publisher.ts';
import type { PlannedOperation } from '../../../../src/explain/replies.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { exposed } from '../../../support/exposed.ts';
import { FakeClock, TestLog } from '../../../support/reconciling.ts';

const KNOWN: PlannedOperation = { do: 'write-rule', command: 'iptables -t nat -N KUBE-SERVICES', known: 'rule-text' };
const MISSING: PlannedOperation = { do: 'add-virtual-server', command: 'ipvsadm -A -t 10.96.0.10:80 -s rr' };

function publishing() {
  const metrics = new ProxyMetrics();
  const health = new ProxyHealth(60_000, 'node-a');
  const clock = new FakeClock();
  const log = new TestLog();
  health.started([4], clock.now());
  const publisher = new ShadowPublisher({ metrics, health, clock, log });
  const series = async (): Promise<readonly string[]> =>
    (await exposed(metrics)).split('\n').filter((line) => /^kubeipvs_shadow_.* [1-9]/.test(line));
  return { publisher, health, clock, log, series, metrics };
}

test('metrics count by object and kind', async () => {
  const { publisher, series, metrics } = publishing();
  publisher.compared([KNOWN, KNOWN, MISSING], 5);
  expect(await series()).toEqual([
    'kubeipvs_shadow_differences{object="virtual-server",kind="unexpected"} 1',
    'kubeipvs_shadow_differences{object="other",kind="unexpected"} 5',
    'kubeipvs_shadow_differences{object="rule",kind="rule-text"} 2',
    expect.stringMatching(/^kubeipvs_shadow_last_comparison_timestamp_seconds 1795\d+/),
  ]);
  publisher.compared([], 0);
  expect(await series()).toHaveLength(1);
  expect(await exposed(metrics)).toContain('kubeipvs_shadow_differences{object="rule",kind="unexpected"} 0');
});

test('a change of what differs is logged once, and a change of numbers is not', () => {
  const { publisher, log } = publishing();
  publisher.compared([KNOWN], 0);
  publisher.compared([KNOWN, KNOWN], 0);
  publisher.compared([KNOWN, MISSING], 0);
  publisher.compared([KNOWN, MISSING], 0);
  publisher.compared([], 0);
  expect(log.lines).toEqual([
    'info: kernel and plan compared: no unexpected differences, and 1 known one (rule-text 1)',
    'warn: kernel and plan compared: 1 unexpected difference, and 1 known one (rule-text 1)',
    'info: kernel and plan compared: no unexpected differences',
  ]);
  expect(log.entries[1]?.fields).toEqual({ unexpected: [MISSING.command] });
});

test('a log line names ten differences and counts the others', () => {
  const { publisher, log } = publishing();
  publisher.compared(
    Array.from({ length: 12 }, (_, at) => ({ ...MISSING, command: `command ${at}` })),
    0,
  );
  expect(log.entries[0]?.fields['unexpected']).toHaveLength(11);
  expect(log.entries[0]?.fields['unexpected']).toContain('and 2 more');
});

test('a failure is logged once, and makes an old result unhealthy', () => {
  const { publisher, health, clock, log } = publishing();
  publisher.queued();
  publisher.failed(new Error('ENOMEM'), 1_000);
  publisher.failed(new Error('ENOMEM'), 1_000);
  clock.advance(60_000);
  expect(health.livez(clock)).toMatchObject({ status: 503 });
  publisher.compared([], 0);
  expect(health.livez(clock)).toMatchObject({ status: 200 });
  expect(log.lines).toEqual([
    'error: the kernel cannot be compared with the plan, next attempt within 1 s: ENOMEM',
    'info: the kernel can be compared again',
    'info: kernel and plan compared: no unexpected differences',
  ]);
});

test('status has the last result', () => {
  const { publisher } = publishing();
  expect(publisher.last).toBeUndefined();
  publisher.compared([KNOWN, MISSING], 0);
  expect(publisher.last).toEqual({
    unexpected: 1,
    known: { 'rule-text': 1 },
    comparedAt: '2026-11-21T12:16:40.000Z',
  });
});
