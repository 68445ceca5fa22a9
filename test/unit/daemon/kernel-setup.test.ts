import { describe, expect, test } from '@jest/globals';
import { kernelVersion, setUpKernel, usableFamilies } from '../../../src/daemon/kernel-setup.ts';
import { FakeKernel } from '../../../src/kernel/fake-kernel.ts';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import type { IpFamily } from '../../../src/net/ip.ts';
import { configOf } from '../../support/config.ts';
import { TestLog } from '../../support/reconciling.ts';

const IP6 = 'net/ipv6/conf/all/forwarding';

/** A kernel that takes rules only of some families. */
class PartialKernel extends FakeKernel {
  readonly #families: readonly IpFamily[];

  constructor(families: readonly IpFamily[]) {
    super();
    this.#families = families;
    this.sysctls.set(IP6, '1');
  }

  override async probeRules(family?: IpFamily): Promise<void> {
    await super.probeRules();
    if (family !== undefined && this.#families.includes(family)) return;
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
    expect(await usableFamilies(new PartialKernel(there), configOf(...flags), new TestLog())).toEqual(usable);
  });

  test('a kernel without IPv6 is not asked for ip6tables', async () => {
    const kernel = new PartialKernel([4, 6]);
    kernel.sysctls.delete(IP6);
    const log = new TestLog();
    expect(await usableFamilies(kernel, configOf(), log)).toEqual([4]);
    expect(kernel.calls.get('probeRules')).toBe(1);
    expect(log.lines).toEqual(['info: one family only is served here, IPv6: this kernel runs without it']);
  });

  test('neither is fatal, with both reasons', async () => {
    await expect(usableFamilies(new PartialKernel([]), configOf(), new TestLog())).rejects.toThrow(
      'no rules can be written on this node: IPv4: no program for family 4; IPv6: no program for family 6',
    );
  });
});

describe('setUpKernel', () => {
  const QUIET = ['--conntrack-max-per-core=0'];

  test('sets what IPVS needs, and writes nothing the second time', async () => {
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

  test('strictARP, and IPVS timeouts in whole seconds where they are given', async () => {
    const kernel = new FakeKernel();
    const before = await kernel.getIpvsTimeouts();
    await setUpKernel(kernel, configOf(...QUIET, '--ipvs-strict-arp', '--ipvs-udp-timeout=90500ms'), new TestLog());
    expect(kernel.sysctls.get('net/ipv4/conf/all/arp_ignore')).toBe('1');
    expect(kernel.sysctls.get('net/ipv4/conf/all/arp_announce')).toBe('2');
    expect(await kernel.getIpvsTimeouts()).toEqual({ ...before, udp: 90 });
  });

  test('a sysctl that cannot be written is fatal; IPVS timeouts are only logged', async () => {
    const kernel = new FakeKernel();
    kernel.failMethod('setIpvsTimeouts', 'EPERM');
    const log = new TestLog();
    await setUpKernel(kernel, configOf(...QUIET, '--ipvs-tcp-timeout=1m'), log);
    expect(log.lines).toContainEqual(expect.stringContaining('error: IPVS timeouts could not be set'));
    kernel.failMethod('setSysctl', 'EROFS');
    await expect(setUpKernel(kernel, configOf(...QUIET), log)).rejects.toMatchObject({ code: 'EROFS' });
  });
});

test.each([
  ['6.1.0-13-amd64', [6, 1]],
  ['4.19', [4, 19]],
  ['linux', undefined],
])('kernel release %j', (text, version) => {
  expect(kernelVersion(text)).toEqual(version);
});
