import { describe, expect, test } from '@jest/globals';
import { statusLines } from '../../../../src/command/status.ts';
import { namespacedName } from '../../../../src/base/service/names.ts';
import type { ServiceReply, StatusReply } from '../../../../src/explain/replies.ts';
import type { NodeSettings } from '../../../../src/reconcile/node/node-settings.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { questionsOf } from '../../../support/questions.ts';
import { PLAN_CONFIG, Reconciling } from '../../../support/reconciling.ts';
import { address, real, vsId } from '../../../support/state.ts';

const WEB = service('web', '10.96.0.10', { externalIPs: ['127.0.0.1'] });
const ID = vsId('10.96.0.10', 80);

async function started(nodeSettings?: NodeSettings, kernel = new FakeKernel()) {
  await kernel.prepare();
  const reports: ((report: Parameters<ReturnType<typeof questionsOf>['history']['finished']>[0]) => void)[] = [];
  const run: Reconciling = new Reconciling(kernel, {
    plan: { ...PLAN_CONFIG, ...MODE_PLANS[kernel.mode] },
    ...(nodeSettings === undefined ? {} : { nodeSettings }),
    onChanged: (services) => questions.history.changed(services),
    onRulesRepaired: (family, chains) => questions.history.rulesRepaired(family, chains),
  });
  const questions = questionsOf(kernel, run);
  reports.push((report) => questions.history.finished(report));
  const sync = async (work: Promise<unknown>): Promise<void> => {
    const before = run.reports.length;
    await work;
    for (const report of run.reports.slice(before)) for (const each of reports) each(report);
  };
  await sync(run.take(...listed([WEB], [slice('web', ['10.244.0.5', '10.244.0.6'])])));
  const status = async (): Promise<StatusReply> => (await questions.ask('/v1/status')) as StatusReply;
  return { kernel, run, sync, status, ...questions };
}

test('a node as wanted', async () => {
  const { run, status, watches, history } = await started();
  watches.set('services', { state: 'watching', since: run.clock.now() - 65_000 });
  history.eventApplied();
  run.clock.advance(10_000);
  const reply = await status();
  expect(reply).toMatchObject({
    ok: true,
    verdict: 'kube-ipvs-proxy serves 1 Service on node node-a',
    families: ['IPv4', 'IPv6'],
    watches: { services: 'watching' },
    watchesSince: { services: '2026-11-21T12:15:35.000Z' },
    lastEventAt: '2026-11-21T12:16:40.000Z',
    objects: { services: 1, endpointSlices: 1, virtualServers: 1, realServers: 2, addresses: 1, setEntries: 2 },
    sets: [
      { name: 'KUBE-CLUSTER-IP', entries: 1, capacity: 65_536 },
      { name: 'KUBE-IPVS-IPS', entries: 1, capacity: 65_536 },
    ],
    warnings: { count: 1, first: [{ service: 'default/web' }] },
    repairs: { count: 0, first: [] },
    syncs: { running: false, first: { ok: true, endedAt: '2026-11-21T12:16:40.000Z' }, nextFullCheckInSeconds: 20 },
    health: { healthy: true, problems: [] },
  });
  const lines = statusLines(reply);
  expect(lines.filter((line) => line.length > 100)).toEqual([]);
  expect(lines).toContain('  next full check  in 20 s');
  expect(lines.join(' ').replaceAll(/ +/g, ' ')).toContain(
    'source https://10.0.0.1:6443, services watching since 2026-11-21T12:15:35.000Z last event',
  );
  expect(lines).toContain('  sets             KUBE-CLUSTER-IP 1 of 65536, KUBE-IPVS-IPS 1 of 65536');
});

describe('nftables mode', () => {
  test('neither iptables nor a scheduler, and sets by their names in the table', async () => {
    const reply = await (await started(undefined, new FakeKernel('nftables'))).status();
    expect(reply.sets).toEqual([
      { name: 'ip kube-proxy hairpin-endpoints', entries: 2 },
      { name: 'ip kube-proxy cluster-ips', entries: 1 },
    ]);
    const lines = statusLines(reply).map((line) => line.trimEnd());
    expect(lines).toContain('  mode             nftables, IPv4 and IPv6');
    const sets = 'ip kube-proxy hairpin-endpoints 2, ip kube-proxy cluster-ips 1';
    expect(lines.join(' ').replaceAll(/ +/g, ' ')).toContain(`sets ${sets}`);
    const objects = '1 Service, 1 EndpointSlice, 1 service port, 2 endpoints, 3 entries of 2 sets';
    expect(lines).toContain(`  objects          ${objects}`);
  });

  test('each address of the API server, if there are several', async () => {
    const { status, apiServers } = await started();
    const title = 'addresses of the API server (3):';
    expect(statusLines(await status()).join()).not.toContain('addresses of the API server');
    apiServers.push(
      { server: 'https://10.0.0.1:6443', inUse: false, answeredAt: 0, failed: { at: 1_000, reason: 'ECONNREFUSED' } },
      { server: 'https://10.0.0.2:6443', inUse: true, answeredAt: 2_000 },
      { server: 'https://10.0.0.3:6443', inUse: false },
    );
    const reply = await status();
    const [{ answeredAt, failedAt } = {}, second] = reply.apiServers;
    // Long lines are wrapped.
    const text = statusLines(reply).join(' ').replaceAll(/ +/g, ' ');
    expect(text).toContain(
      [
        title,
        `https://10.0.0.1:6443 not in use, answered ${answeredAt}, failed ${failedAt}: ECONNREFUSED`,
        `https://10.0.0.2:6443 in use, answered ${second?.answeredAt}`,
        'https://10.0.0.3:6443 not in use',
      ].join(' '),
    );
  });

  test('what ipvs mode left, until it is gone', async () => {
    const { status, knownLeftovers } = await started(undefined, new FakeKernel('nftables'));
    knownLeftovers.set('ipvs mode', '1 virtual server with connections, 0 addresses in use');
    const reply = await status();
    expect(reply.leftOfOtherModes).toEqual(['ipvs mode: 1 virtual server with connections, 0 addresses in use']);
    expect(reply.ok).toBe(true);
    const title = 'left by other modes, and removed when possible (1):';
    const lines = statusLines(reply);
    expect(lines.slice(lines.indexOf(title))).toEqual([title, `  ${reply.leftOfOtherModes[0]}`]);
    knownLeftovers.remove('ipvs mode');
    expect(statusLines(await status())).not.toContain(title);
  });

  test('what the kernel refuses and what was repaired is named as in the log, sets as nft lists them', async () => {
    const { kernel, run, sync, status } = await started(undefined, new FakeKernel('nftables'));
    kernel.put({ kind: 'delete-real-server', id: ID, realServer: real('10.244.0.5', 1) });
    const [set] = await kernel.getSets(['KUBE-IPVS-IPS']);
    kernel.put({ kind: 'delete-entry', set: set!, entry: { type: 'hash:ip', address: address('10.96.0.10') } });
    await sync(run.pass(30_000));
    await kernel.removeDevice();
    await sync(run.pass(30_000));
    kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    await sync(run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.7']) } }));
    const { refused, repairs } = await status();
    expect(refused.first.map(({ command }) => command)).toEqual([
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.7:8080 weight=1',
    ]);
    const commands = repairs.first.map(({ command }) => command);
    expect(commands).toContain('add-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=1');
    expect(commands).toContain('nft: add a table kube-proxy that was deleted');
    expect(commands).toContain('add-entry ip kube-proxy cluster-ips 10.96.0.10');
    expect(commands.join('\n')).not.toMatch(/ipvs|ipset|KUBE-/);
  });
});

describe('what is wrong is in the first line', () => {
  test('an operation that the kernel refuses', async () => {
    const { kernel, run, sync, status } = await started();
    kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    await sync(run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.7']) } }));
    const reply = await status();
    expect(reply.verdict).toBe(
      'kube-ipvs-proxy on node node-a: the kernel refuses 1 operation, and they are tried again',
    );
    expect(reply.refused.first).toEqual([
      { command: 'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.7:8080 -m -w 1', why: 'ENOMEM', attempts: 1 },
    ]);
    expect(statusLines(reply)).toContain(
      '  ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.7:8080 -m -w 1: ENOMEM (1 attempt)',
    );
    expect(reply.ok).toBe(false);
  });

  test('a sync that failed', async () => {
    const { kernel, run, sync, status } = await started();
    kernel.failMethod('getSets', 'ENOMEM');
    await sync(run.pass(30_000));
    expect((await status()).verdict).toMatch(/^kube-ipvs-proxy on node node-a: the last sync failed: .*ENOMEM/);
  });

  test('an API server that has been away for long, also as a note of explain', async () => {
    const { run, watches, status, ask } = await started();
    const since = run.clock.now();
    watches.set('services', { state: 'watching', since });
    watches.set('endpointslices', { state: 'waiting', since });
    run.clock.advance(30_000);
    expect((await status()).ok).toBe(true);
    run.clock.advance(5_000);
    const gap = 'the API server has not been watched for 35 s, so changes are unknown: endpointslices';
    expect(await status()).toMatchObject({ ok: false, verdict: `kube-ipvs-proxy on node node-a: ${gap}` });
    const { ok, notes } = (await ask('/v1/service?namespace=default&name=web')) as ServiceReply;
    expect({ ok, note: notes.at(-1) }).toEqual({ ok: true, note: gap });
  });

  test('ip_vs is missing: health has the reason, and the timeouts are not asked for', async () => {
    const { kernel, run, health, status } = await started({
      sysctls: [],
      timeouts: { tcp: 900, tcpFin: 0, udp: 0 },
    });
    health.started([4], run.clock.now());
    kernel.failMethod('getIpvsTimeouts', 'MISSING_MODULE');
    health.failed('the kernel module ip_vs is not loaded', true);
    expect(await status()).toMatchObject({
      verdict: 'kube-ipvs-proxy on node node-a: the kernel module ip_vs is not loaded',
      settings: [],
    });
  });

  test('health', async () => {
    const { health, run, status } = await started();
    health.started([4], run.clock.now());
    health.queued(run.clock.now());
    run.clock.advance(100_000);
    expect(await status()).toMatchObject({ ok: false, health: { healthy: false } });
    expect((await status()).verdict).toContain('no sync of IPv4 has succeeded for 60 s');
  });
});

test('repairs are named for an hour, at most 20, and counted', async () => {
  const { kernel, run, sync, status } = await started();
  kernel.put({ kind: 'edit-real-server', id: ID, realServer: real('10.244.0.5', 9) });
  await sync(run.pass(30_000));
  expect((await status()).repairs).toEqual({
    count: 1,
    first: [
      {
        at: '2026-11-21T12:17:10.000Z',
        command: 'ipvsadm -e -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1',
      },
    ],
  });
  for (let turn = 0; turn < 25; turn++) {
    kernel.put({ kind: 'edit-real-server', id: ID, realServer: real('10.244.0.5', 9) });
    await sync(run.pass(30_000));
  }
  const { repairs } = await status();
  expect(repairs.count).toBe(26);
  expect(repairs.first).toHaveLength(20);
  run.clock.advance(3_600_001);
  expect((await status()).repairs).toEqual({ count: 0, first: [] });
});

test('a repair of kube-ipvs0, of a setting and of rules is named, too', async () => {
  const { kernel, run, sync, status } = await started({
    sysctls: [['net/ipv4/ip_forward', '1']],
    timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
  });
  kernel.sysctls.set('net/ipv4/ip_forward', '0');
  kernel.deleteDevice();
  kernel.flushRules(6);
  await sync(run.pass(30_000));
  const { count, first } = (await status()).repairs;
  expect(count).toBe(4);
  expect(first.map(({ command }) => command)).toEqual([
    'ip link add kube-ipvs0 type dummy',
    'sysctl net.ipv4.ip_forward was 0, set to 1 again',
    'ip addr add 10.96.0.10/32 dev kube-ipvs0',
    expect.stringMatching(/^ip6tables-restore: mangle KUBE-PROXY-FIREWALL, /),
  ]);
});

test('explain SERVICE has the time of the last change of the Service, and what was repaired of it', async () => {
  const { kernel, run, sync, ask } = await started();
  const explain = async (name: string) => (await ask(`/v1/service?namespace=default&name=${name}`)) as ServiceReply;
  expect(await explain('web')).toMatchObject({ changedAt: '2026-11-21T12:16:40.000Z', repairs: [] });
  const other = service('other', '10.96.0.20');
  run.clock.advance(5_000);
  await sync(run.take({ kind: 'service', event: { type: 'applied', object: other } }));
  kernel.put({ kind: 'delete-virtual-server', id: vsId('10.96.0.20', 80) });
  await sync(run.pass(30_000));
  expect(await explain('web')).toMatchObject({ changedAt: '2026-11-21T12:16:40.000Z', repairs: [] });
  expect(await explain('other')).toMatchObject({
    changedAt: '2026-11-21T12:16:45.000Z',
    repairs: [{ at: '2026-11-21T12:17:15.000Z', command: 'ipvsadm -A -t 10.96.0.20:80 -s lc' }],
  });
  run.clock.advance(3_600_001);
  expect((await explain('other')).repairs).toEqual([]);
  await sync(run.take({ kind: 'service', event: { type: 'deleted', object: other.meta } }));
  expect(await explain('other')).toMatchObject({ ok: false, changedAt: '2026-11-21T13:17:15.001Z' });
});

test('of 1,000 Services, the time of the last change is kept', async () => {
  const { history } = await started();
  const names = Array.from({ length: 1_001 }, (_, at) => namespacedName('default', `service-${at}`));
  const known = (name = namespacedName('default', 'web')) => history.ofService(name, () => undefined).changedAt;
  history.changed(new Set(names));
  expect([known(), known(names[0])]).toEqual(['2026-11-21T12:16:40.000Z', undefined]);
  history.changed(new Set(names.slice(1)));
  expect([known(), known(names[1])]).toEqual([undefined, '2026-11-21T12:16:40.000Z']);
});

test('what drains, and since when', async () => {
  const { kernel, run, sync, status } = await started();
  kernel.setObserved(ID, real('10.244.0.6', 1), { activeConnections: 2 });
  await sync(run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } }));
  run.clock.advance(3_000);
  const { draining } = await status();
  expect(draining).toEqual({
    count: 1,
    first: [{ virtualServer: 'TCP 10.96.0.10:80', realServer: '10.244.0.6:8080', sinceSeconds: 3 }],
  });
});

test('which Service has an address, and which has not', async () => {
  const { run, sync, status } = await started();
  const other = service('other', '10.96.0.10');
  await sync(run.take({ kind: 'service', event: { type: 'applied', object: other } }));
  const { conflicts } = await status();
  expect(conflicts).toEqual({
    count: 1,
    first: [{ claimed: 'TCP 10.96.0.10:80', owner: 'default/other', loser: 'default/web' }],
  });
});

test('a shadow says so, and what it found', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([WEB], [slice('web', ['10.244.0.5'])]));
  let shadow: StatusReply['shadow'];
  const { ask } = questionsOf(kernel, run, false, () => shadow);
  const status = async (): Promise<StatusReply> => (await ask('/v1/status')) as StatusReply;
  expect(await status()).toMatchObject({
    ok: true,
    verdict: 'kube-ipvs-proxy is a shadow on node node-a (--dry-run) and changes nothing; 1 Service planned',
  });
  shadow = { unexpected: 2, known: { 'rule-text': 40, 'loop-back': 1 }, comparedAt: '2026-11-21T12:16:40.000Z' };
  const reply = await status();
  expect(reply.ok).toBe(false);
  expect(reply.verdict).toBe(
    'kube-ipvs-proxy on node node-a: a shadow (--dry-run): 2 unexpected differences, and 41 known ones (loop-back 1, rule-text 40)',
  );
  expect(statusLines(reply).join('\n')).toContain('shadow');
  expect(statusLines(reply).filter((line) => line.length > 100)).toEqual([]);
});
