import { describe, expect, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { formatIp, parseIp } from '../../../src/base/ip.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import type { NodeSettings } from '../../../src/reconcile/node/node-settings.ts';
import { boundAddresses } from '../../support/bound-addresses.ts';
import { listed, node, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { countsInWords } from '../../../src/state/op.ts';

const WEB = service('web', '10.96.0.10');
const WEB_SLICE = slice('web', ['10.244.0.5']);
const ADDRESS = parseIp('10.96.0.10')!;
const SETTINGS: NodeSettings = {
  sysctls: [
    ['net/ipv4/vs/conntrack', '1'],
    ['net/ipv4/ip_forward', '1'],
  ],
  timeouts: { tcp: 1_000, tcpFin: 0, udp: 0 },
};

async function started(): Promise<{ kernel: FakeKernel; run: Reconciling }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  for (const [key, value] of SETTINGS.sysctls) kernel.sysctls.set(key, value);
  await kernel.setIpvsTimeouts(SETTINGS.timeouts);
  const run = new Reconciling(kernel, { nodeSettings: SETTINGS });
  await run.take(...listed([WEB], [WEB_SLICE]));
  run.log.lines.length = 0;
  return { kernel, run };
}

const troubles = (run: Reconciling): string[] => run.log.lines.filter((line) => /^(warn|error)/.test(line));

describe('kube-ipvs0', () => {
  test('the next full check creates a deleted kube-ipvs0 again, with its addresses', async () => {
    const { kernel, run } = await started();
    kernel.deleteDevice();
    const report = await run.pass(30_000);
    expect((await boundAddresses(kernel)).map(formatIp)).toEqual(['10.96.0.10']);
    expect(report).toMatchObject({ ok: true, failures: [], node: { deviceMade: true, problems: [] } });
    expect(countsInWords(report.drift)).toEqual(['1 x bind-address']);
    expect(run.log.lines).toContain('warn: interface kube-ipvs0 was missing: created again');
    const { writes } = kernel.counters;
    expect((await run.pass(30_000)).node.deviceMade).toBe(false);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('kube-ipvs0 is created again immediately when its deletion is reported', async () => {
    const { kernel, run } = await started();
    kernel.watchNode(
      () => undefined,
      (reason) => run.reconciler.kernelStateLost(reason),
    );
    kernel.deleteDevice();
    expect(await run.pass(0)).toMatchObject({ kind: 'full', ok: true });
    expect(await boundAddresses(kernel)).toEqual([ADDRESS]);
    expect(run.log.lines).toContain('warn: kube-ipvs0 was deleted: full check started');
  });

  test('if kube-ipvs0 cannot be created, the full check fails, repairs the rest and reports no address as repaired', async () => {
    const { kernel, run } = await started();
    kernel.deleteDevice();
    kernel.tables.virtualServers.clear();
    kernel.failMethod('ensureDevice', 'EOPNOTSUPP');
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ ok: false, node: { deviceMade: false } });
    expect(report.node.problems).toEqual([report.error?.message]);
    expect(kernel.tables.virtualServers.size).toBe(1);
    expect(report.drift.map(({ kind }) => kind)).not.toContain('bind-address');
    expect(report.failures).toEqual([]);
    // Retried after a second, without a further error line each time.
    const before = troubles(run).length;
    await run.pass(1_000);
    expect(troubles(run).slice(before)).toEqual([]);
    kernel.recover();
    expect(await run.pass(2_000)).toMatchObject({ ok: true, node: { deviceMade: true } });
    expect(await boundAddresses(kernel)).toEqual([ADDRESS]);
  });

  test('kube-ipvs0 is created again a second later if it was deleted during a check', async () => {
    const { kernel, run } = await started();
    kernel.deleteDevice();
    kernel.failOps((op) => (op.kind === 'bind-address' ? 19 : undefined));
    expect((await run.pass(30_000)).drift).toEqual([]);
    kernel.recover();
    expect(await run.pass(1_000)).toMatchObject({ kind: 'full', ok: true });
    expect(await boundAddresses(kernel)).toEqual([ADDRESS]);
  });

  test('address flags that another process changed are restored by the first sync and by a full check', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const setByOthers = (): void => {
      kernel.put({ kind: 'bind-address', address: ADDRESS });
      kernel.tables.otherFlags.add(ADDRESS);
    };
    setByOthers();
    const run = new Reconciling(kernel);
    const first = await run.take(...listed([WEB], [WEB_SLICE]));
    expect([first.operations.get('bind-address'), first.operations.get('unbind-address')]).toEqual([1, undefined]);
    expect(await kernel.getBoundAddresses()).toEqual([{ address: ADDRESS, prefix: 32, conforms: true }]);
    setByOthers();
    expect(countsInWords((await run.pass(30_000)).drift)).toEqual(['1 x bind-address']);
    const { writes } = kernel.counters;
    await run.pass(30_000);
    expect(kernel.counters.writes).toBe(writes);
  });
});

describe('settings of the node', () => {
  test('settings that another process changed are restored and logged', async () => {
    const { kernel, run } = await started();
    kernel.sysctls.set('net/ipv4/ip_forward', '0');
    await kernel.setIpvsTimeouts({ tcp: 900, tcpFin: 0, udp: 0 });
    const report = await run.pass(30_000);
    expect(kernel.sysctls.get('net/ipv4/ip_forward')).toBe('1');
    expect((await kernel.getIpvsTimeouts()).tcp).toBe(1_000);
    expect(report.node.settingsRepaired).toHaveLength(2);
    expect(troubles(run)).toEqual([
      'warn: another process changed a setting of this node: sysctl net.ipv4.ip_forward was 0, set to 1 again',
      'warn: another process changed a setting of this node: IPVS timeouts were tcp 900 s, tcpfin 120 s, udp 300 s, set as configured again',
    ]);
    const { writes } = kernel.counters;
    expect((await run.pass(30_000)).node.settingsRepaired).toEqual([]);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('settings that cannot be set are problems, logged once until they are solved', async () => {
    const { kernel, run } = await started();
    kernel.sysctls.delete('net/ipv4/vs/conntrack');
    for (const _ of [1, 2]) {
      const report = await run.pass(30_000);
      expect(report).toMatchObject({ ok: true, node: { problems: ['sysctl net/ipv4/vs/conntrack does not exist'] } });
    }
    expect(troubles(run)).toEqual(['error: sysctl net/ipv4/vs/conntrack does not exist']);
    kernel.sysctls.set('net/ipv4/vs/conntrack', '1');
    expect((await run.pass(30_000)).node.problems).toEqual([]);
    expect(run.log.lines).toContain('info: this problem no longer exists: sysctl net/ipv4/vs/conntrack does not exist');
  });

  test('addresses of Services on other interfaces are a problem that names them', async () => {
    const { kernel, run } = await started();
    kernel.setNodeAddresses([{ address: ADDRESS, prefix: 32, interfaceName: 'eth0', tentative: false }]);
    const { node } = await run.pass(30_000);
    expect(node.problems).toEqual([
      'addresses of Services are on other interfaces than kube-ipvs0: 10.96.0.10 on eth0; remove them there',
    ]);
  });

  test('a Node without addresses is a problem with primary, until it reports one', async () => {
    const { kernel } = await started();
    const plan = { ...PLAN_CONFIG, nodePortAddresses: { primary: true, cidrs: [] } };
    const run = new Reconciling(kernel, { plan });
    const event = (addresses: readonly string[]): SourceEvent => ({
      kind: 'node',
      event: { type: 'applied', object: node('node-a', addresses) },
    });
    await run.take(...listed([WEB], [WEB_SLICE]), event([]));
    expect((await run.pass(30_000)).node.problems).toEqual([expect.stringMatching(/^our Node reports no address:/)]);
    await run.take(event(['192.168.9.1']));
    expect((await run.pass(30_000)).node.problems).toEqual([]);
  });
});

describe('forwarding that is off in part', () => {
  const IF = (names: string) =>
    `net.ipv4.conf.IF.forwarding is 0 for ${names}: IPv4 packets that arrive there are not forwarded, ` +
    'as between Pods and clients of Services; set it to 1 unless this is intended';

  test('interfaces are named once, until they change, and are no problem of health', async () => {
    const { kernel, run } = await started();
    kernel.unforwarded.add('eth0');
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ ok: true, node: { problems: [], settingsRepaired: [] } });
    await run.pass(30_000);
    expect(troubles(run)).toEqual([`warn: ${IF('eth0')}`]);
    kernel.unforwarded.add('eth1');
    await run.pass(30_000);
    expect(troubles(run).at(-1)).toBe(`warn: ${IF('eth0, eth1')}`);
    kernel.unforwarded.clear();
    await run.pass(30_000);
    expect(run.log.lines).toContain(`info: this problem no longer exists: ${IF('eth0, eth1')}`);
    expect(await run.reconciler.answers.forwardingNotes()).toEqual([]);
  });

  test('while ip_forward is 0, the interfaces follow from it: only the sysctl is named', async () => {
    const { kernel, run } = await started();
    kernel.unforwarded.add('eth0');
    kernel.sysctls.set('net/ipv4/ip_forward', '0');
    expect(await run.reconciler.answers.forwardingNotes()).toEqual([]);
    expect(await run.reconciler.answers.settings()).toEqual(['sysctl -w net.ipv4.ip_forward=1']);
  });

  test('that of IPv6 is named if there are IPv6 Services, and never set', async () => {
    const { kernel, run } = await started();
    kernel.sysctls.set('net/ipv6/conf/all/forwarding', '0');
    expect(await run.reconciler.answers.forwardingNotes()).toEqual([]);
    const six = service('six', 'fd00:96::6');
    await run.take({ kind: 'service', event: { type: 'applied', object: six } });
    await run.pass(30_000);
    const [note = ''] = await run.reconciler.answers.forwardingNotes();
    expect(note).toMatch(/^net\.ipv6\.conf\.all\.forwarding is 0/);
    expect(troubles(run)).toEqual([`warn: ${note}`]);
    expect(kernel.sysctls.get('net/ipv6/conf/all/forwarding')).toBe('0');
  });
});
