import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { IpFamily } from '../../src/base/ip.ts';
import { processIptablesFacts } from '../../src/kernel/iptables/iptables-facts.ts';
import { runCommand } from '../bed/command.ts';

jest.setTimeout(60_000);

const FAMILIES: readonly [IpFamily, string, string][] = [
  [4, 'iptables-legacy', '127.0.0.1'],
  [6, 'ip6tables-legacy', '::1'],
];

// In the network namespace of this kernel's processes: the digest is of the own one.
describe.each(FAMILIES)('the tables of iptables-legacy, IPv%d', (family, program, address) => {
  const digest = (): string | undefined => processIptablesFacts().legacyDigest(family, ['nat', 'filter']);
  const iptables = (...args: readonly string[]) => runCommand([program, '--wait', ...args]);
  const packetsOf = async (): Promise<string> => (await iptables('-L', 'DIGEST', '-n', '-v', '-x')).stdout;

  beforeAll(async () => {
    await runCommand(['ip', 'link', 'set', 'lo', 'up']);
    await iptables('-N', 'DIGEST');
    await iptables('-A', 'DIGEST', '-s', address, '-m', 'comment', '--comment', 'one', '-j', 'ACCEPT');
    await iptables('-I', 'INPUT', '-j', 'DIGEST');
    await iptables('-t', 'nat', '-N', 'DIGEST');
  });

  afterAll(async () => {
    await iptables('-D', 'INPUT', '-j', 'DIGEST');
    await iptables('-F', 'DIGEST');
    await iptables('-X', 'DIGEST');
    await iptables('-t', 'nat', '-X', 'DIGEST');
  });

  test('packets that rules count do not change the digest', async () => {
    const [before, counted] = [digest(), await packetsOf()];
    expect(before).toMatch(/^[0-9a-f]{40} [0-9a-f]{40}$/);
    await runCommand(['ping', '-c', '2', '-i', '0.2', address]);
    expect(await packetsOf()).not.toBe(counted);
    expect(digest()).toBe(before);
  });

  test.each([
    [
      'a rule of the same length',
      ['-R', 'DIGEST', '1', '-s', address, '-m', 'comment', '--comment', 'two', '-j', 'ACCEPT'],
    ],
    [
      'a target of the same length',
      ['-R', 'DIGEST', '1', '-s', address, '-m', 'comment', '--comment', 'two', '-j', 'DROP'],
    ],
    ['a chain in another table', ['-t', 'nat', '-N', 'DIGEST-2']],
    ['a policy', ['-P', 'FORWARD', 'DROP']],
  ])('%s changes it', async (_what, change) => {
    const before = digest();
    await iptables(...change);
    expect(digest()).not.toBe(before);
    if (change.includes('-N')) await iptables('-t', 'nat', '-X', 'DIGEST-2');
    if (change.includes('-P')) await iptables('-P', 'FORWARD', 'ACCEPT');
  });

  test('a table that the kernel does not have has none', () => {
    expect(processIptablesFacts().legacyDigest(family, ['nat', 'nonesuch'])).toBeUndefined();
  });
});
