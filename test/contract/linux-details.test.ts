import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Op } from '../../src/state/op.ts';
import type { RuleSet } from '../../src/state/rules/rule-set.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { LongProcess } from '../bed/long-process.ts';
import { patient } from '../bed/patience.ts';
import { LinuxBed } from './linux-bed.ts';
import { address, endpoint, entry, port, realServer, set, virtualServer } from './objects.ts';
import { unloadIpvs } from './unload-ipvs.ts';

jest.setTimeout(patient(120_000));

const child = fileURLToPath(new URL('watch-child.ts', import.meta.url));
const node = [process.execPath, '--disable-warning=ExperimentalWarning', child];

describe('the kernel of Linux', () => {
  let bed: LinuxBed;
  beforeEach(async () => {
    bed = await LinuxBed.make();
  });
  afterEach(async () => {
    await bed[Symbol.asyncDispose]();
  });
  const apply = async (...ops: readonly Op[]) => bed.kernel.apply(new Transaction(ops));

  test('kube-ipvs0 is a dummy interface that is DOWN, as with kube-proxy, and its IPv6 addresses are never selected as source', async () => {
    await bed.kernel.prepare();
    await apply({ kind: 'bind-address', address: address(4, 1) }, { kind: 'bind-address', address: address(6, 1) });
    const [link] = JSON.parse(
      await bed.run('ip', '-d', '-j', 'addr', 'show', 'dev', 'kube-ipvs0'),
    ) as readonly unknown[];
    expect(link).toMatchObject({
      ifname: 'kube-ipvs0',
      flags: expect.not.arrayContaining(['UP']),
      linkinfo: { info_kind: 'dummy' },
      addr_info: expect.arrayContaining([
        expect.objectContaining({ local: '10.96.0.1', prefixlen: 32, scope: 'global' }),
        expect.objectContaining({
          local: 'fd00:96::1',
          prefixlen: 128,
          nodad: true,
          deprecated: true,
          preferred_life_time: 0,
        }),
      ]),
    });
  });

  test('an interface kube-ipvs0 of another kind is refused and left alone', async () => {
    await bed.run('ip', 'link', 'add', 'kube-ipvs0', 'type', 'bridge');
    await expect(bed.kernel.prepare()).rejects.toThrow(/kube-ipvs0 is not a dummy interface but bridge/);
    expect(await bed.run('ip', 'link', 'show', 'dev', 'kube-ipvs0')).toContain('kube-ipvs0');
  });

  test('no address is bound to or removed from a kube-ipvs0 of another kind, and the error names it', async () => {
    await bed.kernel.prepare();
    await bed.deleteDevice();
    await bed.run('ip', 'link', 'add', 'kube-ipvs0', 'type', 'bridge');
    await bed.bindAsOthers(address(4, 2));
    await expect(bed.kernel.ensureDevice()).rejects.toThrow(/kube-ipvs0 is not a dummy interface but bridge/);
    const refused = await apply({ kind: 'bind-address', address: address(4, 1) });
    expect(refused.failures).toMatchObject([{ code: 'ENODEV', text: expect.stringContaining('but bridge') }]);
    expect((await apply({ kind: 'unbind-address', address: address(4, 2) })).failures).toEqual([]);
    expect(await bed.kernel.getBoundAddresses()).toEqual([]);
    const interfaces = (await bed.kernel.getNodeAddresses()).map(({ interfaceName }) => interfaceName);
    expect(interfaces).toContain('kube-ipvs0');
    await bed.kernel.removeDevice();
    expect(await bed.addresses()).toEqual(['10.96.0.2/32']);
  });

  test('a kube-ipvs0 that is UP stays UP, because setting it DOWN removes its IPv6 addresses', async () => {
    await bed.run('ip', 'link', 'add', 'kube-ipvs0', 'up', 'type', 'dummy');
    await bed.bindAsOthers(address(6, 1));
    await bed.kernel.prepare();
    expect(await bed.addresses()).toEqual(['fd00:96::1/128']);
    expect(await bed.run('ip', 'link', 'show', 'dev', 'kube-ipvs0', 'up')).toContain('kube-ipvs0');
  });

  test('flags of an address are changed in place, and an IPv4 address with another prefix is removed', async () => {
    await bed.kernel.prepare();
    await bed.bindAsOthers(address(6, 1));
    await bed.run('ip', 'addr', 'add', '10.96.0.1/24', 'dev', 'kube-ipvs0');
    await using monitor = await LongProcess.start(['ip', '-n', bed.netns, 'monitor', 'address', 'route']);
    await monitor.ended(300);
    await apply({ kind: 'bind-address', address: address(6, 1) });
    await monitor.waitForOutput(/fd00:96::1\/128 scope global nodad deprecated/, 10_000);
    expect(monitor.output).not.toMatch(/deleted/i);
    await apply({ kind: 'bind-address', address: address(4, 1) });
    expect(await bed.kernel.getBoundAddresses()).toContainEqual({ address: address(4, 1), prefix: 24, conforms: true });
    await apply({ kind: 'unbind-address', address: address(4, 1), prefix: 24 });
    expect(await bed.addresses()).toEqual(['10.96.0.1/32', 'fd00:96::1/128']);
  });

  test('a renamed or deleted kube-ipvs0 is reported, even if the kernel report was lost among thousands', async () => {
    const lost: string[] = [];
    const ignore = (): void => undefined;
    await bed.kernel.prepare();
    const stop = bed.kernel.watchNode(ignore, (reason) => lost.push(reason));
    await bed.kernel.getBoundAddresses();
    const reported = async (reports: number): Promise<void> => {
      for (let wait = 0; wait < 100 && lost.length < reports; wait++) await setTimeout(50);
    };
    await bed.run('ip', 'link', 'set', 'kube-ipvs0', 'name', 'other0');
    await reported(1);
    expect(lost).toEqual(['kube-ipvs0 was renamed to other0']);
    await bed.kernel.ensureDevice();
    const ops = Array.from({ length: 12_000 }, (_, n): Op => ({ kind: 'bind-address', address: address(4, n + 1) }));
    expect((await apply(...ops)).failures).toEqual([]);
    const deletion = bed.deleteDevice();
    // What the kernel reports meanwhile does not fit in the socket.
    const until = performance.now() + 2_000;
    while (performance.now() < until);
    await deletion;
    await reported(2);
    expect(lost[1]).toMatch(/^kube-ipvs0 was deleted/);
    stop();
  });

  test('an unloaded ip_vs is loaded again, and the loss of all virtual servers is reported', async () => {
    // Other network namespaces of this machine may be using it.
    if (process.env['KERNEL_USED'] === 'native') return;
    const lost: string[] = [];
    const stop = bed.kernel.watchNode(
      () => undefined,
      (reason) => lost.push(reason),
    );
    const id = virtualServer(address(4, 1), 80);
    const add: Op = { kind: 'add-virtual-server', virtualServer: id };
    const readers: (() => Promise<unknown>)[] = [
      () => bed.kernel.getVirtualServers(),
      () => bed.kernel.getIpvsTimeouts(),
      () => bed.kernel.setIpvsTimeouts({ tcp: 800, tcpFin: 0, udp: 0 }),
      () => bed.kernel.probeScheduler('rr'),
      // Real servers are only read of virtual servers that were found before.
      () => bed.kernel.findVirtualServers([id]),
    ];
    expect((await apply(add)).failures).toEqual([]);
    for (const read of readers) {
      await unloadIpvs(bed);
      await read();
    }
    await unloadIpvs(bed);
    expect((await apply(add)).failures).toEqual([]);
    expect(await bed.kernel.getVirtualServers()).toMatchObject([{ port: 80 }]);
    expect(lost).toEqual(Array.from({ length: 6 }, () => 'the kernel module ip_vs was unloaded'));
    // A scheduler that does not exist is still an error.
    const failed = await apply({ ...add, virtualServer: { ...id, port: port(81), scheduler: 'nosuch' } });
    expect(failed.failures).toMatchObject([{ code: 'ENOENT' }]);
    expect(lost).toHaveLength(6);
    stop();
  });

  test('virtual servers by firewall mark, and those of every port, are omitted', async () => {
    await bed.run('ipvsadm', '-A', '-f', '7', '-s', 'rr');
    await bed.run('ipvsadm', '-A', '-t', '10.0.0.1:0', '-s', 'rr', '-p', '60');
    await bed.run('ipvsadm', '-A', '-t', '10.0.0.1:80', '-s', 'rr');
    await bed.run('ipvsadm', '-a', '-t', '10.0.0.1:80', '-r', '10.0.0.2:80', '-g', '-w', '5');
    const found = await bed.kernel.getVirtualServers();
    expect(found).toHaveLength(1);
    const [servers] = (await bed.kernel.getRealServers(found)).values();
    expect(servers).toMatchObject([{ weight: 5, forwarding: 3 }]);
  });

  test('reading counters delays no change', async () => {
    const ids = Array.from({ length: 500 }, (_, n) => virtualServer(address(4, n + 1), 80));
    const servers = Array.from({ length: 20 }, (_, n) => realServer(endpoint(4, n + 1), 8080));
    await apply(
      ...ids.flatMap((id): Op[] => [
        { kind: 'add-virtual-server', virtualServer: id },
        ...servers.map((each): Op => ({ kind: 'add-real-server', id, realServer: each })),
      ]),
    );
    // Opens the socket.
    await bed.kernel.getVirtualServerStats();
    const { netlinkSends } = bed.kernel.counters;
    const stats = bed.kernel.getRealServerStats(ids);
    // Its questions are on their way.
    await setImmediate();
    await apply({ kind: 'delete-real-server', id: ids[0]!, realServer: servers[0]! });
    // One for the change, and one for each virtual server that was asked about by then.
    expect(bed.kernel.counters.netlinkSends - netlinkSends).toBeLessThan(ids.length);
    expect((await stats).size).toBe(ids.length);
    expect(bed.kernel.counters.netlinkSends - netlinkSends).toBe(ids.length + 1);
  });

  test('foreign sets are left alone, and twin sets that a crash left are removed', async () => {
    await bed.run('ipset', 'create', 'OTHER', 'hash:ip');
    await bed.run('ipset', 'add', 'OTHER', '10.0.0.1');
    await bed.run('ipset', 'create', 'KUBE-IFACES', 'hash:net,iface');
    await bed.run('ipset', 'add', 'KUBE-IFACES', '10.1.0.0/16,eth0');
    await bed.run('ipset', 'create', 'KUBE~LOOP-BACK', 'hash:ip,port,ip');
    await bed.kernel.prepare();
    expect(await bed.sets()).toEqual([
      'add KUBE-IFACES 10.1.0.0/16,eth0',
      'add OTHER 10.0.0.1',
      'create KUBE-IFACES hash:net,iface',
      'create OTHER hash:ip',
    ]);
    expect(await bed.kernel.getSets()).toMatchObject([{ name: 'KUBE-IFACES', type: 'hash:net,iface', entries: [] }]);
  });

  test('sets that ipset created are adopted', async () => {
    const types = ['hash:ip', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net'] as const;
    for (const type of types) {
      await bed.run('ipset', 'create', `KUBE-${type}`, type, 'family', 'inet', 'hashsize', '1024', 'maxelem', '65536');
    }
    await bed.run('ipset', 'create', 'KUBE-bitmap', 'bitmap:port', 'range', '0-65535');
    const same = types.map((type): Op => ({ kind: 'create-set', set: set(4, type, type) }));
    same.push({ kind: 'create-set', set: set(4, 'bitmap', 'bitmap:port') });
    expect(await apply(...same)).toEqual({ failures: [] });
  });

  test('a set grows while rules refer to it', async () => {
    const small = set(4, 'CLUSTER-IP', 'hash:ip,port', 64);
    await apply({ kind: 'create-set', set: small });
    await bed.run('iptables', '-A', 'INPUT', '-m', 'set', '--match-set', small.name, 'dst,dst', '-j', 'ACCEPT');
    const entries = Array.from({ length: 300 }, (_, n) => entry(4, 'hash:ip,port', n + 1));
    const outcome = await apply({ kind: 'grow-set', set: { ...small, maxEntries: 512 }, entries });
    expect(outcome.failures).toEqual([]);
    expect(await bed.sets()).toHaveLength(301);
    expect((await apply({ kind: 'destroy-set', set: small })).failures[0]?.text).toMatch(/in use by a rule/);
  });

  test('a set is created with enough buckets for its first entries', async () => {
    const large = set(4, 'CLUSTER-IP', 'hash:ip,port');
    const small = set(4, 'EXTERNAL-IP', 'hash:ip,port');
    const ops: Op[] = [large, small].map((one) => ({ kind: 'create-set', set: one }));
    for (let n = 1; n <= 20_000; n++) ops.push({ kind: 'add-entry', set: large, entry: entry(4, 'hash:ip,port', n) });
    const before = bed.kernel.counters;
    expect((await apply(...ops)).failures).toEqual([]);
    const after = bed.kernel.counters;
    // The kernel hashes with a random seed. It doubles the buckets once more if one of them happens to be full.
    expect(await bed.run('ipset', 'list', '-t', large.name)).toMatch(
      /hashsize (8192|16384) [^]*Number of entries: 20000/,
    );
    expect(await bed.run('ipset', 'list', '-t', small.name)).toMatch(/hashsize 1024 /);
    expect(after.netlinkSystemCalls - before.netlinkSystemCalls).toBeLessThan(0.05 * 20_000);
    // Made again, with the same or other buckets: it is there.
    expect((await apply({ kind: 'create-set', set: large })).failures).toEqual([]);
  });

  test.each([4, 6] as const)(
    'writing the rules of IPv%s starts one program, and so does checking them',
    async (family) => {
      const rules: RuleSet = {
        family,
        chains: [
          { table: 'filter', name: 'KUBE-FORWARD', rules: [['-m', 'mark', '--mark', '0x4000/0x4000', '-j', 'ACCEPT']] },
        ],
        jumps: [{ table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' }],
      };
      const started = (): number => bed.kernel.counters.processesStarted;
      // As the daemon does at its start: the variant of iptables is found out here.
      await bed.kernel.probeRules(family);
      const before = started();
      expect(await bed.kernel.ensureRules(rules)).toMatchObject({ changed: true });
      expect(started()).toBe(before + 1);
      expect(await bed.rules(family)).toHaveLength(2);
      expect(await bed.kernel.ensureRules(rules)).toMatchObject({ changed: false });
      expect(started()).toBe(before + 2);
      await bed.flushRules(family);
      expect(await bed.kernel.ensureRules(rules)).toMatchObject({ changed: true });
      expect(await bed.rules(family)).toHaveLength(2);
    },
  );

  test('missing rights are an error that says so', async () => {
    const argv = ['ip', 'netns', 'exec', bed.netns, 'setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin'];
    await using started = await LongProcess.start([
      ...argv,
      '--no-new-privs',
      '--reuid=65534',
      '--clear-groups',
      ...node,
    ]);
    const [said] = await started.waitForOutput(/KernelError .*/, 60_000);
    expect(said).toMatch(/needs root or CAP_NET_ADMIN/);
  });

  test('added and removed addresses are reported, except those of kube-ipvs0', async () => {
    await using started = await LongProcess.start(['ip', 'netns', 'exec', bed.netns, ...node]);
    await started.waitForOutput(/watching/, 60_000);
    const reports = (): number => started.output.split('changed').length - 1;
    await bed.run('ip', 'addr', 'add', '10.96.0.9/32', 'dev', 'kube-ipvs0');
    await bed.run('ip', 'addr', 'del', '10.96.0.9/32', 'dev', 'kube-ipvs0');
    await bed.run('ip', '-6', 'addr', 'add', 'fd00:96::9/128', 'dev', 'kube-ipvs0', 'nodad');
    await bed.run('ip', 'link', 'add', 'node0', 'type', 'dummy');
    await started.ended(500);
    // One may have come before the watch knew the index of kube-ipvs0.
    const before = reports();
    expect(before).toBeLessThanOrEqual(1);
    await bed.run('ip', 'addr', 'add', '192.0.2.7/24', 'dev', 'node0');
    await started.waitForOutput(new RegExp(`(changed\\s+){${before + 1}}`), 10_000);
    await bed.run('ip', '-6', 'addr', 'add', '2001:db8::7/64', 'dev', 'node0', 'nodad');
    await started.waitForOutput(new RegExp(`(changed\\s+){${before + 2}}`), 10_000);
    await bed.run('ip', 'addr', 'del', '192.0.2.7/24', 'dev', 'node0');
    await started.waitForOutput(new RegExp(`(changed\\s+){${before + 3}}`), 10_000);
  });

  test('the event loop runs during a sync of 10,000 Services with 10 endpoints each', async () => {
    const ops: Op[] = [];
    for (let n = 0; n < 10_000; n++) {
      const id = virtualServer(address(4, n + 1), 80);
      ops.push({ kind: 'add-virtual-server', virtualServer: id });
      for (let e = 0; e < 10; e++) {
        ops.push({ kind: 'add-real-server', id, realServer: realServer(endpoint(4, n * 4 + e), 8080) });
      }
    }
    const delay = monitorEventLoopDelay({ resolution: 5 });
    const plan = new Transaction(ops);
    delay.enable();
    const before = bed.kernel.counters;
    const start = performance.now();
    const outcome = await bed.kernel.apply(plan);
    const applied = performance.now();
    const { netlinkSystemCalls } = bed.kernel.counters;
    const found = await bed.kernel.getVirtualServers();
    const servers = await bed.kernel.getRealServers(found);
    const read = performance.now();
    delay.disable();
    expect(outcome).toEqual({ failures: [] });
    expect(netlinkSystemCalls - before.netlinkSystemCalls).toBeGreaterThan(0);
    expect(netlinkSystemCalls - before.netlinkSystemCalls).toBeLessThan(0.05 * ops.length);
    expect([...servers.values()].reduce((sum, list) => sum + list.length, 0)).toBe(100_000);
    const [p99, max] = [delay.percentile(99) / 1e6, delay.max / 1e6].map(Math.round);
    const [applying, reading] = [applied - start, read - applied].map(Math.round);
    process.stderr.write(`apply ${applying} ms, read ${reading} ms, event loop p99 ${p99} ms, max ${max} ms\n`);
    // The test kernel's one processor runs the kernel's work too; a health check is answered within a second all the
    // same.
    expect(max).toBeLessThan(patient(1000));
    expect(read - start).toBeLessThan(patient(60_000));
  });
});
