import { expect, jest, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, meta, service } from '../../support/objects.ts';
import { CheckedEndpoints, checkedService, endpointsOf } from '../../support/checked-endpoints.ts';
import { topLines } from '../../../src/command/top/top-lines.ts';
import { topReply } from '../../../src/command/top/top-reply.ts';
import { statusLines } from '../../../src/command/status.ts';
import type { ServiceReply, StatusReply, TrafficReply } from '../../../src/explain/replies.ts';
import { questionsOf } from '../../support/questions.ts';
import type { EndpointCheckerOptions } from '../../../src/daemon/endpoint-check/endpoint-checker.ts';

const [A, B, C] = ['10.244.0.5', '10.244.0.6', '10.244.0.7'] as const;

/** One Service with three endpoints, after the first sync, when each has answered this node. */
async function started(
  change: Partial<EndpointCheckerOptions> = {},
  kernel = new FakeKernel(),
  silent: readonly string[] = [],
  closedToNode: readonly string[] = [],
): Promise<CheckedEndpoints> {
  const bed = await CheckedEndpoints.on(kernel, change);
  for (const address of silent) bed.silent.add(address);
  for (const address of closedToNode) bed.closedToNode.add(address);
  await bed.run.take(...listed([checkedService('web', '10.96.0.10')], [endpointsOf('web', [A, B, C])]));
  bed.checker.start();
  await bed.pass(6_000);
  return bed;
}

test('a silent endpoint gets weight 0 within four seconds, in the kernel as in the plan, and its weight when it answers', async () => {
  const bed = await started();
  bed.silent.add(B);
  await bed.pass(4_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
  expect(bed.run.log.lines).toContainEqual(
    'warn: endpoint 10.244.0.6:8080 does not answer: 10 packets of 2 new connections to it, 0 back, nor did it answer this node; new connections go to others',
  );
  // A full check finds nothing to repair, again and again.
  await bed.pass(65_000);
  expect(bed.run.reports.filter(({ kind }) => kind === 'full').length).toBeGreaterThan(1);
  expect(bed.run.reports.flatMap(({ drift }) => drift)).toEqual([]);
  expect((await bed.run.reconciler.answers.difference(new AbortController().signal)).ops).toEqual([]);
  bed.silent.delete(B);
  await bed.pass(31_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
  expect(bed.run.log.lines).toContainEqual(
    expect.stringMatching(/^info: endpoint 10\.244\.0\.6:8080 answers again after \d+ s$/),
  );
  expect(bed.told).toEqual(['default/web 1/3', 'default/web 0/3']);
});

test('with a scheduler that heeds weights, an endpoint comes back with a quarter of its weight, then half of it, then all', async () => {
  const bed = await CheckedEndpoints.on(new FakeKernel());
  const annotations = { 'endpoint-check': 'true', scheduler: 'wrr', weights: 'node=other:8,node=local:8' };
  const web = checkedService('web', '10.96.0.10', {
    annotations: Object.entries(annotations).map(([name, value]) => ({ name, value })),
  });
  await bed.run.take(...listed([web], [endpointsOf('web', [A, B, C])]));
  bed.checker.start();
  await bed.pass(6_000);
  bed.silent.add(B);
  await bed.pass(4_000);
  bed.silent.delete(B);
  const weights: (number | undefined)[] = [];
  for (let seconds = 0; seconds < 30; seconds++) {
    const weight = bed.weights()[B];
    if (weight !== weights.at(-1)) weights.push(weight);
    await bed.pass(1_000);
  }
  expect(weights).toEqual([0, 2, 4, 8]);
  expect(bed.weights()).toEqual({ [A]: 8, [B]: 8, [C]: 8 });
});

test('status, top and explain name a silent endpoint, since when, and why', async () => {
  const bed = await started();
  bed.silent.add(B);
  await bed.pass(6_500);
  const { ask } = questionsOf(bed.kernel, bed.run, false, undefined, () => bed.checker.silent());
  const lines = statusLines((await ask('/v1/status')) as StatusReply);
  const why = 'has not answered for 4 s (10 packets of 2 new connections to it, 0 back); it gets no new connections';
  expect(lines.join(' ').replaceAll(/ +/g, ' ')).toContain(
    `endpoints that do not answer (1): default/web: 10.244.0.6:8080 ${why}`,
  );
  const traffic = (await ask('/v1/traffic?by=service')) as TrafficReply;
  expect(
    topLines(topReply(traffic, traffic, 'name'))
      .join(' ')
      .replaceAll(/ +/g, ' '),
  ).toContain(`10.244.0.6:8080 ${why}`);
  expect(await ask('/v1/traffic?by=service&namespace=other')).toMatchObject({ silent: { count: 0 } });
  const { ok, ports } = (await ask('/v1/service?namespace=default&name=web')) as ServiceReply;
  expect([ok, ports[0]?.addresses[0]?.state]).toEqual([true, 'as planned']);
  expect(ports[0]?.endpoints.map(({ weight, why: reason }) => [weight, reason])).toEqual([
    [1, undefined],
    [0, why],
    [1, undefined],
  ]);
  bed.silent.add(A);
  await bed.pass(8_000);
  const { silent } = (await ask('/v1/status')) as StatusReply;
  expect(silent?.first.map(({ endpoint, used }) => [endpoint, used])).toEqual([
    ['10.244.0.6:8080', true],
    ['10.244.0.5:8080', true],
  ]);
});

test('an endpoint that answers its clients is asked once; one that does not answer this node is never silent', async () => {
  const bed = await started({}, new FakeKernel(), [], [B]);
  await bed.pass(60_000);
  expect(bed.connects.filter((address) => address !== B).toSorted()).toEqual([A, C]);
  // Of some packets of its clients, no answer is counted.
  bed.silent.add(B);
  await bed.pass(60_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
  expect(bed.checker.counts()).toEqual({ unknown: 1, trusted: 2, suspected: 0, silent: 0 });
});

test('a silent endpoint gets its weight back after five minutes, and loses it again when its clients get no answer', async () => {
  const bed = await started();
  bed.silent.add(B);
  await bed.pass(8_000);
  bed.isIdle = true;
  await bed.pass(340_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
  expect(bed.run.log.lines.join('\n')).toMatch(
    /info: endpoint 10\.244\.0\.6:8080 counts as answering on trial: it has not answered for 3\d\d s/,
  );
  expect(bed.run.log.lines.join('\n')).not.toContain('answers again');
  bed.isIdle = false;
  await bed.pass(8_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
});

test('after a restart, an endpoint that does not answer this node gets its weight back after some connects', async () => {
  const before = await started();
  before.silent.add(B);
  await before.pass(8_000);
  before.checker.stop();
  await before.run.reconciler.stop();

  const after = await CheckedEndpoints.on(before.kernel);
  after.isIdle = true;
  after.closedToNode.add(B);
  await after.run.take(...listed([checkedService('web', '10.96.0.10')], [endpointsOf('web', [A, B, C])]));
  after.checker.start();
  await after.pass(10_000);
  expect(after.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
  await after.pass(10_000);
  expect(after.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
});

test('an endpoint that has not answered since before a restart is silent when most others of its Service answer', async () => {
  const bed = await started({}, new FakeKernel(), [B]);
  await bed.pass(8_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
  const few = await started({}, new FakeKernel(), [A, B]);
  await few.pass(20_000);
  expect(few.checker.counts()).toMatchObject({ unknown: 2, silent: 0 });
});

test('endpoints that become silent and answer again all the time do not fill the log', async () => {
  const bed = await started();
  for (let times = 0; times < 30; times++) {
    bed.silent.add(A).add(B).add(C);
    await bed.pass(7_000);
    bed.silent.clear();
    await bed.pass(20_000);
  }
  // 90 verdicts begin and end. The log takes 20 lines at once, and one more in ten seconds.
  expect(bed.told.length).toBeGreaterThan(80);
  const lines = bed.run.log.lines.filter((line) => /does not answer|answers again/.test(line));
  expect(lines.length).toBeGreaterThan(80);
  expect(lines.length).toBeLessThan(110);
});

test('if more than half are silent, all are used', async () => {
  const bed = await started();
  bed.silent.add(A).add(B);
  await bed.pass(10_000);
  expect([...bed.checker.silent()]).toHaveLength(2);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
  bed.silent.delete(A);
  await bed.pass(10_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
});

test('while this node has no link, no endpoint is silent', async () => {
  const bed = await started();
  bed.isUnplugged = true;
  await bed.pass(30_000);
  expect([...bed.checker.silent()]).toEqual([]);
});

test('when this node loses its link, verdicts end, and the log says why', async () => {
  const bed = await started();
  bed.silent.add(B);
  await bed.pass(8_000);
  bed.isUnplugged = true;
  await bed.pass(4_000);
  expect([...bed.checker.silent()]).toEqual([]);
  expect(bed.run.log.lines.join('\n')).toMatch(
    /info: endpoint 10\.244\.0\.6:8080 counts as answering after \d+ s: this node cannot send connects to it now/,
  );
  expect(bed.run.log.lines.join('\n')).not.toContain('answers again');
});

test('observe reports a silent endpoint and changes nothing', async () => {
  const bed = await started({ acts: false });
  bed.silent.add(B);
  await bed.pass(10_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
  expect(bed.run.log.lines.join('\n')).toMatch(
    /endpoint 10\.244\.0\.6:8080 does not answer.*endpoint-check observes only/,
  );
  expect(bed.checker.counts()).toEqual({ unknown: 0, trusted: 2, suspected: 0, silent: 1 });
});

test('an endpoint that the API removes and adds again is used at once', async () => {
  const bed = await started();
  bed.silent.add(B);
  await bed.pass(8_000);
  const change = (addresses: readonly string[]) =>
    bed.run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: endpointsOf('web', addresses) } });
  await change([A, C]);
  bed.silent.delete(B);
  await change([A, B, C]);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
});

test('when a silent endpoint or its Service is removed, the Event is about those that remain, or is withdrawn', async () => {
  const bed = await started();
  bed.silent.add(A).add(B);
  await bed.pass(8_000);
  expect(bed.told.at(-1)).toBe('default/web 2/3');
  const applied = { type: 'applied', object: endpointsOf('web', [A, C]) } as const;
  await bed.run.take({ kind: 'endpoint-slice', event: applied });
  expect(bed.told.at(-1)).toBe('default/web 1/2');
  await bed.run.take({ kind: 'service', event: { type: 'deleted', object: meta('web') } });
  expect(bed.told.at(-1)).toBe('default/web 0/0');
});

test('a restart keeps weight 0 until the endpoint answers, which it is asked at once', async () => {
  const before = await started();
  before.silent.add(B);
  await before.pass(8_000);
  before.checker.stop();
  await before.run.reconciler.stop();

  const after = await started({}, before.kernel, [B]);
  expect(after.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
  expect(after.connects[0]).toBe(B);
  after.silent.delete(B);
  await after.pass(3_000);
  expect(after.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
});

test('a restart lets new connections go to an endpoint that has come back, also if it answers during the first sync', async () => {
  const before = await started();
  before.silent.add(B);
  await before.pass(8_000);
  before.checker.stop();
  await before.run.reconciler.stop();

  const bed = await CheckedEndpoints.on(before.kernel);
  const web = listed([checkedService('web', '10.96.0.10')], [endpointsOf('web', [A, B, C])]);
  await bed.run.take(...web);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
  await bed.pass(100);
  expect([...bed.checker.silent()]).toEqual([]);
  bed.checker.start();
  await bed.pass(100);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 1, [C]: 1 });
});

test('nothing is read while no Service asks for it, and only what got packets otherwise', async () => {
  const bed = await CheckedEndpoints.on(new FakeKernel());
  const calls: string[] = [];
  jest.spyOn(bed.kernel, 'getVirtualServerStats').mockImplementation((ids) => {
    calls.push('virtual servers');
    return FakeKernel.prototype.getVirtualServerStats.call(bed.kernel, ids);
  });
  jest.spyOn(bed.kernel, 'getRealServerStats').mockImplementation((ids) => {
    calls.push(`real servers of ${ids.length}`);
    return FakeKernel.prototype.getRealServerStats.call(bed.kernel, ids);
  });
  await bed.run.take(...listed([service('web', '10.96.0.10')], [endpointsOf('web', [A, B])]));
  bed.checker.start();
  await bed.pass(20_000);
  expect(calls).toEqual([]);

  const applied = { type: 'applied', object: checkedService('other', '10.96.0.11') } as const;
  await bed.run.take({ kind: 'service', event: applied });
  await bed.run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: endpointsOf('other', [C]) } });
  await bed.pass(4_000);
  expect(new Set(calls)).toEqual(new Set(['virtual servers', 'real servers of 1']));
});

test('while no packet comes, only the sum of the node is read', async () => {
  const bed = await started();
  bed.silent.add(B);
  const read = jest.spyOn(bed.kernel, 'getVirtualServerStats');
  await bed.pass(4_000);
  bed.isIdle = true;
  await bed.pass(4_000);
  read.mockClear();
  await bed.pass(20_000);
  expect(read).not.toHaveBeenCalled();
});

test('a failed read of the counters is logged once, and the next one goes on', async () => {
  const bed = await started();
  bed.silent.add(B);
  bed.kernel.failMethod('getVirtualServerStats', 'ENOBUFS');
  await bed.pass(10_000);
  expect(bed.run.log.lines.filter((line) => line.includes('failed to read the counters of endpoints'))).toHaveLength(1);
  bed.kernel.failMethod('getVirtualServerStats', undefined);
  await bed.pass(8_000);
  expect(bed.weights()).toEqual({ [A]: 1, [B]: 0, [C]: 1 });
});
