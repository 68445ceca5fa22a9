import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { connReuse, setUpKernel, usableFamilies, wantedSettings } from '../../../../src/daemon/startup/kernel-setup.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import type { IpFamily } from '../../../../src/base/ip.ts';
import { differingSettings } from '../../../../src/reconcile/node/node-settings.ts';
import { configOf } from '../../../support/config.ts';
import { TestLog } from '../../../support/reconciling.ts';

const DISABLE_IPV6 = 'net/ipv6/conf/all/disable_ipv6';

/** A kernel that takes rules only of some families. */
class PartialKernel extends FakeKernel {
  readonly #families: readonly IpFamily[];

  constructor(families: readonly IpFamily[]) {
    super();
    this.#families = families;
    this.sysctls.set(DISABLE_IPV6, '0');
  }

  override async probeRules(family?: IpFamily): Promise<string> {
    if (family !== undefined && this.#families.includes(family)) return await super.probeRules();
    throw new KernelError('iptables', 'MISSING_COMMAND', `no program for family ${family}`);
  }
}

describe('usableFamilies', () => {
  test.each([
    ['both', [4, 6], [], [4, 6]],
    ['both, IPv6 first by --bind-address', [4, 6], ['--bind-address=2001:db8::1'], [6, 4]],
    ['only iptables', [4], [], [4]],
    ['only ip6tables', [6], [], [6]],
    ['only iptables, though IPv6 is wanted first', [4], ['--bind-address=2001:db8::1'], [4]],
  ] as const)('%s', async (_what, there, flags, usable) => {
    const found = await usableFamilies(new PartialKernel(there), configOf(...flags), new TestLog());
    expect(found).toEqual({ families: usable, iptables: 'nft' });
  });

  test.each([
    ['on a kernel without IPv6', undefined, 'this kernel runs without IPv6'],
    ['where IPv6 is disabled', '1', 'the sysctl net.ipv6.conf.all.disable_ipv6 is 1'],
  ])('%s, ip6tables is not tested', async (_where, disabled, reason) => {
    const kernel = new PartialKernel([4, 6]);
    if (disabled === undefined) kernel.sysctls.delete(DISABLE_IPV6);
    else kernel.sysctls.set(DISABLE_IPV6, disabled);
    const log = new TestLog();
    expect(await usableFamilies(kernel, configOf(), log)).toMatchObject({ families: [4] });
    expect(kernel.calls.get('probeRules')).toBe(1);
    expect(log.lines).toEqual([
      `info: IPv6 is not served on this node, so Services get no virtual servers of this family: ${reason}`,
    ]);
  });

  test.each([
    ['LOCKED', 'Another app is currently holding the xtables lock'],
    ['TIMEOUT', 'ip6tables-restore did not end within 50000 ms and was killed'],
    ['EAGAIN', 'cannot run ip6tables-restore: fork: EAGAIN'],
    ['IPTABLES', 'ip6tables-restore failed with status -1: terminated by a signal'],
  ])('a family is kept after a temporary failure, which is logged: %s', async (code, words) => {
    const kernel = new PartialKernel([4]);
    const probe = kernel.probeRules.bind(kernel);
    kernel.probeRules = async (family) => {
      if (family === 6) throw new KernelError('iptables', code, words);
      return await probe(family);
    };
    const log = new TestLog();
    expect(await usableFamilies(kernel, configOf(), log)).toMatchObject({ families: [4, 6] });
    expect(log.lines).toEqual([
      `warn: failed to test whether iptables rules of IPv6 can be written; the first sync tries again: ${words}`,
    ]);
  });

  test('in nftables mode, the rules that could not be tested are those of nf_tables', async () => {
    const kernel = new PartialKernel([4, 6]);
    kernel.probeRules = () => Promise.reject(new KernelError('probeRules', 'ENOMEM', 'ENOMEM'));
    const log = new TestLog();
    await usableFamilies(kernel, { ...configOf(), mode: 'nftables' }, log);
    expect(log.lines[0]).toBe(
      'warn: failed to test whether rules of nf_tables of IPv4 can be written; the first sync tries again: ENOMEM',
    );
  });

  test('if neither family is usable, the start fails with both reasons', async () => {
    await expect(usableFamilies(new PartialKernel([]), configOf(), new TestLog())).rejects.toThrow(
      'cannot write iptables rules of either IP family on this node: IPv4: no program for family 4; IPv6: no program for family 6',
    );
  });
});

describe('setUpKernel', () => {
  const QUIET = ['--conntrack-max-per-core=0'];

  test('the kernel set-up writes the settings that IPVS needs; a second run writes nothing', async () => {
    const kernel = new FakeKernel();
    await setUpKernel(kernel, configOf(...QUIET), new TestLog());
    for (const key of ['vs/conntrack', 'vs/expire_nodest_conn', 'vs/expire_quiescent_template', 'ip_forward']) {
      expect([key, kernel.sysctls.get(`net/ipv4/${key}`)]).toEqual([key, '1']);
    }
    expect(kernel.sysctls.get('net/ipv4/conf/all/arp_ignore')).toBe('0');
    const { writes } = kernel.counters;
    await setUpKernel(kernel, configOf(...QUIET), new TestLog());
    expect(kernel.counters.writes).toBe(writes);
  });

  test('the kernel set-up writes strictARP, and configured IPVS timeouts in whole seconds', async () => {
    const kernel = new FakeKernel();
    const before = await kernel.getIpvsTimeouts();
    await setUpKernel(kernel, configOf(...QUIET, '--ipvs-strict-arp', '--ipvs-udp-timeout=90500ms'), new TestLog());
    expect(kernel.sysctls.get('net/ipv4/conf/all/arp_ignore')).toBe('1');
    expect(kernel.sysctls.get('net/ipv4/conf/all/arp_announce')).toBe('2');
    expect(await kernel.getIpvsTimeouts()).toEqual({ ...before, udp: 90 });
  });

  test('every valid duration works: a timeout that is too long for the kernel becomes the longest possible one', async () => {
    const timeouts = ['ipvs-tcp-timeout', 'ipvs-tcpfin-timeout', 'ipvs-udp-timeout'];
    const tracked = ['tcp-timeout-established', 'tcp-timeout-close-wait', 'udp-timeout', 'udp-timeout-stream'];
    const flags = [...timeouts, ...tracked.map((name) => `conntrack-${name}`)];
    await fc.assert(
      fc.asyncProperty(fc.bigInt(1n, 2n ** 63n - 1n), async (nanoseconds) => {
        const kernel = new FakeKernel();
        const log = new TestLog();
        const config = configOf(...QUIET, ...flags.map((name) => `--${name}=${nanoseconds}ns`));
        await setUpKernel(kernel, config, log);
        const most = Math.trunc((2 ** 31 - 1) / 300);
        const seconds = Math.max(1, Math.trunc(Number(nanoseconds / 1_000_000n) / 1_000));
        const { tcp, tcpFin, udp } = await kernel.getIpvsTimeouts();
        const keys = tracked.map((name) => `net/netfilter/nf_conntrack_${name.replaceAll('-', '_')}`);
        const inForce = [tcp, tcpFin, udp, ...keys.map((key) => Number(kernel.sysctls.get(key)))];
        for (const each of inForce) expect(each).toBeGreaterThanOrEqual(Math.min(seconds, most));
        for (const each of inForce) expect(each).toBeLessThanOrEqual(seconds);
        expect(log.lines.filter((line) => line.startsWith('error'))).toEqual([]);
        const warned = log.lines.filter((line) => line.includes('exceeds the maximum of this kernel')).length;
        expect(warned).toBe(inForce.filter((each) => each < seconds).length);
      }),
    );
  });

  test('a sysctl that cannot be written is fatal; IPVS timeouts that cannot be written are only logged', async () => {
    const kernel = new FakeKernel();
    kernel.failMethod('setIpvsTimeouts', 'EPERM');
    const log = new TestLog();
    await setUpKernel(kernel, configOf(...QUIET, '--ipvs-tcp-timeout=1m'), log);
    expect(log.lines).toContainEqual(expect.stringContaining('error: failed to set IPVS timeouts'));
    kernel.failMethod('setSysctl', 'EROFS');
    await expect(setUpKernel(kernel, configOf(...QUIET), log)).rejects.toMatchObject({ code: 'EROFS' });
  });
});

test('wantedSettings reads what setUpKernel would change, and writes nothing', async () => {
  const kernel = new FakeKernel();
  kernel.sysctls.set('net/netfilter/nf_conntrack_max', '10');
  const config = configOf(
    '--ipvs-tcp-timeout=1m',
    '--ipvs-strict-arp',
    '--conntrack-min=77',
    '--conntrack-udp-timeout=9s',
  );
  const settings = await wantedSettings(kernel, config);
  expect(kernel.counters.writes).toBe(0);
  expect(settings.sysctls).toContainEqual(['net/netfilter/nf_conntrack_udp_timeout', '9']);
  expect(settings.sysctls.map(([key]) => key)).toContain('net/netfilter/nf_conntrack_max');
  const commands = (await differingSettings(kernel, settings)).map(({ command }) => command);
  expect(commands).toContain('sysctl -w net.ipv4.conf.all.arp_ignore=1');
  expect(commands).toContain('ipvsadm --set 60 0 0');
  const quiet = configOf(
    '--conntrack-max-per-core=0',
    '--ipvs-tcp-timeout=1m',
    '--ipvs-strict-arp',
    '--conntrack-udp-timeout=9s',
  );
  await setUpKernel(kernel, quiet, new TestLog());
  expect(await differingSettings(kernel, await wantedSettings(kernel, quiet))).toEqual([]);
});

test.each([
  ['4.0.9', undefined],
  ['4.1.0', '0'],
  ['4.19', '0'],
  ['5.8.0-63-generic', '0'],
  ['5.9.0', undefined],
  ['6.1.0-13-amd64', undefined],
])('kernel release %j: conn_reuse_mode is %j', (text, mode) => {
  expect(connReuse(text).find(([key]) => key === 'net/ipv4/vs/conn_reuse_mode')?.[1]).toBe(mode);
});
