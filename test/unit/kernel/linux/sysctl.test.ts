import { describe, expect, test } from '@jest/globals';
import { Sysctl, type SysctlFiles } from '../../../../src/kernel/linux/sysctl.ts';

function files(content: Map<string, string>, refuse?: string): SysctlFiles {
  return {
    read: async (path) => Promise.resolve(content.get(path)),
    write: async (path, value) => {
      if (refuse !== undefined) throw Object.assign(new Error('refused'), { code: refuse });
      content.set(path, value);
      await Promise.resolve();
    },
  };
}

describe('sysctls', () => {
  const path = '/proc/sys/net/ipv4/ip_forward';

  test('a sysctl is written only if it differs', async () => {
    const content = new Map([[path, '0\n']]);
    const sysctl = new Sysctl(files(content));
    expect(await sysctl.set('net/ipv4/ip_forward', '0')).toEqual({ changed: false, before: '0' });
    expect(content.get(path)).toBe('0\n');
    expect(await sysctl.set('net/ipv4/ip_forward', '1')).toEqual({ changed: true, before: '0' });
    expect(content.get(path)).toBe('1');
  });

  test('sysctls with several numbers are compared number by number', async () => {
    const sysctl = new Sysctl(files(new Map([['/proc/sys/net/ipv4/ip_local_port_range', '32768\t60999\n']])));
    expect(await sysctl.set('net/ipv4/ip_local_port_range', '32768 60999')).toMatchObject({ changed: false });
  });

  test('a sysctl that cannot be written is an error with the key, the wanted and the found value', async () => {
    const sysctl = new Sysctl(files(new Map([[path, '0\n']]), 'EROFS'));
    await expect(sysctl.set('net/ipv4/ip_forward', '1')).rejects.toMatchObject({
      code: 'EROFS',
      message: expect.stringMatching(/net\/ipv4\/ip_forward.*set to 1.*it is 0/),
    });
  });

  test.each([
    [
      'net/ipv4/vs/conntrack',
      /^sysctl net\/ipv4\/vs\/conntrack cannot be set to 1: it does not exist; .*modprobe ip_vs/,
    ],
    ['net/netfilter/nf_conntrack_max', /modprobe nf_conntrack\)/],
    ['net/ipv4/ip_forward', /it does not exist; this kernel lacks it$/],
  ])('a missing sysctl %s is an error with a remedy', async (key, message) => {
    await expect(new Sysctl(files(new Map())).set(key, '1')).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringMatching(message) as unknown,
    });
  });

  test('sysctls of interfaces with a dot in their name can be addressed', async () => {
    const content = new Map([['/proc/sys/net/ipv4/conf/eth0.100/rp_filter', '2\n']]);
    expect(await new Sysctl(files(content)).get('net/ipv4/conf/eth0.100/rp_filter')).toBe('2');
  });
});
