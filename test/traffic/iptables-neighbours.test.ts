import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { LEGACY_ONLY, PLAIN_IPTABLES } from '../support/plain-iptables.ts';
import { ManifestDirectory, type Protocol, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const SYNC_PERIOD_MS = 2_000;
/** As programs that share the tables agree on it; iptables run with another file takes no part in that. */
const LOCK_FILE = '/run/xtables.lock';
const TOLD = /another program keeps displacing our jumps in chain INPUT/;
/** Loaded by whoever asks iptables or netlink anything, and then not used. */
const ONLY_ASKED = ['bpfilter', 'nf_tables'];
const PROGRAMS = ['iptables', 'ip6tables'];

/** Other programs that use iptables on the node: their locks, and their own rule at the end of INPUT. */
describe('other programs that use iptables', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await serve(1);
    bed = await Bed.create({ nodes: 1 });
    node = bed.node(0);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  const flags = (): readonly string[] => [
    `--manifests=${directory.path}`,
    `--ipvs-sync-period=${SYNC_PERIOD_MS}ms`,
    '--ipvs-min-sync-period=0s',
    '-v=4',
  ];

  async function serve(index: number, protocols: readonly Protocol[] = ['TCP']): Promise<void> {
    const endpoints = [{ addresses: podAddress(0, 0), node: 0 }];
    await directory.write(
      `s${index}`,
      serviceObjects({ name: `s${index}`, clusterIp: clusterAddress(index), protocols, endpoints }),
    );
  }

  async function output(...argv: readonly string[]): Promise<string> {
    return (await node.exec(argv)).stdout;
  }

  /** A process that holds the iptables lock until it is stopped or the time is over. */
  async function holdLock(seconds: number): Promise<LongProcess> {
    const holder = await node.spawn(['flock', LOCK_FILE, 'sh', '-c', `echo held; exec sleep ${seconds}`]);
    await holder.waitForOutput(/held/, 10_000);
    return holder;
  }

  const livez = async (): Promise<string> =>
    await output('curl', '-s', '-m', '5', '-o', '/dev/null', '-w', '%{http_code}', 'http://127.0.0.1:10256/livez');
  const written = (): number => daemon.output.match(/iptables rules written/g)?.length ?? 0;
  const checks = (): number => daemon.output.match(/synced.*kind="?full/g)?.length ?? 0;

  async function until(condition: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
    const deadline = performance.now() + ms;
    while (!(await condition())) {
      if (performance.now() > deadline) throw new Error(`not within ${ms} ms; output:\n${daemon.output}`);
      await sleep(50);
    }
  }

  const served = async (index: number): Promise<boolean> =>
    (await output('ipvsadm', '-Sn')).includes(`-A -t ${clusterAddress(index).v4}:80`);

  function withTheLock(): void {
    test('an iptables lock held at start is logged, and both families are served after its release', async () => {
      const holder = await holdLock(120);
      daemon = await node.spawn(daemonArgv(node, flags()));
      for (const family of ['IPv4', 'IPv6']) {
        const told = new RegExp(`failed to test whether iptables rules of ${family} .*xtables lock`);
        await daemon.waitForOutput(told, 60_000);
      }
      await holder.stop();
      await daemon.waitForOutput(/initial sync complete/, 60_000);
      expect(daemon.output).not.toContain('is not served on this node');
      expect(await output('ipvsadm', '-Sn')).toContain(`-A -t [${clusterAddress(1).v6}]:80`);
      for (const program of PROGRAMS) expect(await output(`${program}-save`)).toContain('-A KUBE-SERVICES');
    });

    test('an iptables lock held while rules are missing delays no change and does not affect health', async () => {
      const holder = await holdLock(120);
      for (const program of PROGRAMS) {
        await node.exec(['env', `XTABLES_LOCKFILE=${directory.path}/no.lock`, program, '-t', 'nat', '-F']);
      }
      const took: number[] = [];
      const health = new Set<string>();
      const before = checks();
      // Long enough for health to go stale, were it to wait for the rules.
      for (let index = 2; took.length < 5 || checks() < before + 4; index++) {
        const changed = performance.now();
        await serve(index);
        await until(() => served(index));
        took.push(Math.round(performance.now() - changed));
        health.add(await livez());
      }
      process.stdout.write(`changes beside a held lock: ${JSON.stringify({ took })}\n`);
      // The daemon takes some ten milliseconds; the rest is this machine's.
      expect(Math.max(...took)).toBeLessThan(6_000);
      expect([...health]).toEqual(['200']);
      expect(await output('iptables-save', '-t', 'nat')).not.toContain('-A KUBE-SERVICES');
      await holder.stop(10_000);
      for (const program of PROGRAMS) {
        await until(async () => (await output(`${program}-save`, '-t', 'nat')).includes('-A KUBE-SERVICES'), 60_000);
      }
      await until(() => (daemon.output.match(/restored/g)?.length ?? 0) >= PROGRAMS.length);
      expect(daemon.output).not.toMatch(/sync failed/);
      expect(await livez()).toBe('200');
      await daemon.stop(10_000);
    });
  }

  if (PLAIN_IPTABLES === 'legacy') withTheLock();
  else test.todo(`a held iptables lock: ${LEGACY_ONLY.lock}`);

  test('another program that keeps its own rule last in INPUT wins after two moves, with one warning', async () => {
    const theirs = ['INPUT', '-p', 'tcp', '--dport', '9', '-m', 'comment', '--comment', 'theirs', '-j', 'DROP'];
    const input = async (): Promise<string[]> =>
      (await output('iptables-save', '-t', 'filter')).split('\n').filter((line) => line.startsWith('-A INPUT'));
    let givenWay = Infinity;
    daemon = await startDaemon(node, flags());
    const before = written();
    await node.exec(['iptables', '-w', '-A', ...theirs]);
    // Whenever ours was moved behind theirs, theirs is moved behind ours; on for some checks after ours has given way.
    await until(async () => {
      if ((await input()).at(-1)?.includes('KUBE-IPVS-ACCEPT') === true) {
        await node.exec(['iptables', '-w', '-D', ...theirs]);
        await node.exec(['iptables', '-w', '-A', ...theirs]);
      }
      if (givenWay === Infinity && TOLD.test(daemon.output)) givenWay = checks();
      return checks() >= givenWay + 3;
    }, 90_000);
    expect(written() - before).toBe(2);
    expect((await input()).slice(-2).map((line) => line.split(' -j ')[1])).toEqual(['KUBE-IPVS-ACCEPT', 'DROP']);
    expect(daemon.output.split(TOLD)).toHaveLength(2);
    // What does not work is mended all the same.
    await node.exec(['iptables', '-w', '-F', 'INPUT']);
    await until(async () => (await input()).some((line) => line.endsWith('-j KUBE-IPVS-ACCEPT')));
    await daemon.stop(10_000);
    expect(daemon.exit).toBe(0);
  });

  function withoutAModule(): void {
    test('without table mangle everything works except its rules, and a warning names the module', async () => {
      await node.exec(daemonArgv(node, ['--cleanup']), { timeoutMs: 60_000 });
      const modules = ['iptable_mangle', 'ip6table_mangle'];
      const forbidden = '/run/modprobe.d/no-mangle.conf';
      const forbid = modules.map((module) => `install ${module} /bin/false`).join('\\n');
      await node.exec(['sh', '-c', `mkdir -p /run/modprobe.d && printf '${forbid}\\n' > ${forbidden}`]);
      try {
        await node.exec(['modprobe', '-r', ...modules]);
        daemon = await startDaemon(node, flags());
        await daemon.waitForOutput(/synced.*kind="?full/, 30_000);
        for (const [family, module] of [
          ['IPv4', modules[0]],
          ['IPv6', modules[1]],
        ]) {
          const lines = daemon.output.match(new RegExp(`${family}: this kernel has no iptables table mangle .*`, 'g'));
          expect(lines).toEqual([
            expect.stringMatching(`so source ranges do not apply to .*; load the kernel module ${module} on the node`),
          ]);
        }
        for (const program of PROGRAMS) {
          const rules = await output(`${program}-save`);
          expect(rules).toContain('-A KUBE-SERVICES');
          expect(rules).toContain('-A KUBE-SOURCE-RANGES-FIREWALL');
        }
        expect(daemon.output).not.toMatch(/restored|sync failed/);
        await daemon.stop(10_000);
      } finally {
        await node.exec(['rm', forbidden]);
        await node.exec(['modprobe', '-a', ...modules]);
      }
      daemon = await startDaemon(node, flags());
      expect(await output('iptables-save', '-t', 'mangle')).toContain('-A KUBE-SOURCE-RANGES-FIREWALL');
      await daemon.stop(10_000);
    });
  }

  function withoutAMatch(): void {
    test('iptables mode without a match that it needs does not start, and says which module or mode would help', async () => {
      const forbidden = '/run/modprobe.d/no-statistic.conf';
      const forbid = 'install xt_statistic /bin/false';
      await node.exec(['sh', '-c', `mkdir -p /run/modprobe.d && echo ${forbid} > ${forbidden}`]);
      try {
        await node.exec(['modprobe', '-r', 'xt_statistic']);
        daemon = await node.spawn(daemonArgv(node, [...flags(), '--proxy-mode=iptables']));
        expect(await daemon.ended(30_000)).toBe(true);
        expect(daemon.exit).toBe(1);
        const lacks = 'this kernel lacks the iptables extension statistic for';
        expect(daemon.output).toContain(`${lacks} IPv4: load the module xt_statistic; IPv6: ${lacks} IPv6`);
        expect(daemon.output).toContain('--proxy-mode=nftables needs no iptables');
        for (const program of PROGRAMS) expect(await output(`${program}-save`)).not.toContain('EXTENSION');
      } finally {
        await node.exec(['rm', forbidden]);
      }
    });
  }

  function onAKernelOfItsOwn(): void {
    withoutAMatch();
    if (PLAIN_IPTABLES === 'legacy') withoutAModule();
    else test.todo(`without table mangle: ${LEGACY_ONLY.tableModule}`);

    test('a start loads the modules that docs/migrate.md lists, and no others', async () => {
      const documented = await documentedModules();
      await node.exec(daemonArgv(node, ['--cleanup']), { timeoutMs: 60_000 });
      // iptables-nft leaves its empty tables, which keep modules in use.
      if (PLAIN_IPTABLES === 'nft') await node.exec(['nft', 'flush', 'ruleset']);
      await unloadUnused();
      const before = await loadedModules();
      try {
        // Every set and rule is always there; only an endpoint of a UDP port asks for the flows.
        await serve(1, ['TCP', 'UDP']);
        daemon = await startDaemon(node, [...flags(), '--ipvs-scheduler=lc']);
        const after = await loadedModules();
        await daemon.stop(10_000);
        const loaded = [...after].filter(([name]) => !before.has(name) && !ONLY_ASKED.includes(name));
        // One that another one needs is loaded with it.
        const own = loaded.filter(([, users]) => !users.some((user) => after.has(user))).map(([name]) => name);
        expect(own.sort()).toEqual(documented.filter((name) => !ONLY_ASKED.includes(name)).sort());
      } finally {
        await node.exec(['sh', '-c', `modprobe -a $(cat lab/kernel/machine/modules)`], { allowFailure: true });
      }
    });
  }

  if (process.env['KERNEL_USED'] !== 'native') onAKernelOfItsOwn();
  // Not a pass: of this machine's own kernel nothing is unloaded.
  else test.todo('modules: only on a kernel of its own');

  /** Those of docs/migrate.md for this variant of iptables. */
  async function documentedModules(): Promise<string[]> {
    const page = await readFile('docs/migrate.md', 'utf8');
    const legacy = /<!-- modules -->\s+```\n([^`]*)```/.exec(page)?.[1]?.match(/\w+/g) ?? [];
    if (PLAIN_IPTABLES === 'legacy') return legacy;
    const ofNft = /The nft variant needs ([^]*?) instead/.exec(page)?.[1]?.match(/\w+_\w+/g) ?? [];
    return [...legacy.filter((name) => !/^ip6?table_/.test(name)), ...ofNft];
  }

  /** Each module with those that use it. */
  async function loadedModules(): Promise<ReadonlyMap<string, readonly string[]>> {
    const lines = (await output('cat', '/proc/modules')).trim().split('\n');
    return new Map(
      lines.map((line) => {
        const [name = '', , , users = ''] = line.split(' ');
        return [name, users.split(',').filter((user) => user !== '' && user !== '-')];
      }),
    );
  }

  /** All unused modules, then those that only they used. The bed's own devices keep what they need. */
  async function unloadUnused(): Promise<void> {
    const unload = "for m in $(awk '$3 == 0 { print $1 }' /proc/modules); do rmmod $m; done";
    for (let round = 0; round < 8; round++) await node.exec(['sh', '-c', unload], { allowFailure: true });
  }
});
