import { describe, expect, test } from '@jest/globals';
import { Transaction } from '../../src/state/transaction.ts';
import type { ContractBed } from './contract-bed.ts';
import { address, virtualServer } from './objects.ts';

export function settingContract(bed: () => ContractBed): void {
  describe('settings', () => {
    test('sysctls are read, and written only if they differ', async () => {
      const { kernel } = bed();
      const key = 'net/ipv4/vs/conntrack';
      expect(await kernel.getSysctl(key)).toBe('0');
      expect(await kernel.setSysctl(key, '1')).toEqual({ changed: true, before: '0' });
      expect(await kernel.setSysctl(key, '1')).toEqual({ changed: false, before: '1' });
      expect(await kernel.getSysctl(key)).toBe('1');
    });

    test('a sysctl that does not exist is undefined when read, and an error when written', async () => {
      const { kernel } = bed();
      expect(await kernel.getSysctl('net/ipv4/vs/no_such_key')).toBeUndefined();
      await expect(kernel.setSysctl('net/ipv4/vs/no_such_key', '1')).rejects.toMatchObject({
        code: 'ENOENT',
        message: expect.stringContaining('net/ipv4/vs/no_such_key'),
      });
    });

    test.each(['../../etc/passwd', 'net/../../etc/passwd', '/etc/passwd', '', 'net/ipv4/', '-n', 'net/ip v4\n'])(
      'a key that could leave /proc/sys is refused: %j',
      async (key) => {
        await expect(bed().kernel.getSysctl(key)).rejects.toMatchObject({ code: 'EINVAL' });
        await expect(bed().kernel.setSysctl(key, '1')).rejects.toMatchObject({ code: 'EINVAL' });
      },
    );

    test('the traffic of all virtual servers begins at zero', async () => {
      const zero = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
      expect(await bed().kernel.getTrafficTotals()).toEqual(zero);
    });

    test('IPVS timeouts above 0 are set', async () => {
      const { kernel } = bed();
      const before = await kernel.getIpvsTimeouts();
      expect(before.tcp).toBeGreaterThan(0);
      await kernel.setIpvsTimeouts({ tcp: 0, tcpFin: 77, udp: 0 });
      expect(await kernel.getIpvsTimeouts()).toEqual({ ...before, tcpFin: 77 });
      await kernel.setIpvsTimeouts({ tcp: 801, tcpFin: 0, udp: 302 });
      expect(await kernel.getIpvsTimeouts()).toEqual({ tcp: 801, tcpFin: 77, udp: 302 });
      const tooLong = { tcp: 2 ** 31 - 1, tcpFin: 0, udp: 0 };
      await expect(kernel.setIpvsTimeouts(tooLong)).rejects.toMatchObject({ code: 'EINVAL' });
    });

    test('a scheduler is tested without leaving anything behind', async () => {
      const { kernel } = bed();
      await kernel.probeScheduler('lc');
      expect(await bed().ipvs()).toEqual([]);
      await expect(kernel.probeScheduler('nosuch')).rejects.toMatchObject({
        code: 'ENOENT',
        message: expect.stringContaining('ip_vs_nosuch'),
      });
      expect(await bed().ipvs()).toEqual([]);
    });

    test('a scheduler in use is not tested', async () => {
      const { kernel } = bed();
      const used = virtualServer(address(4, 1), 80, 'TCP', { scheduler: 'wlc' });
      await kernel.apply(new Transaction([{ kind: 'add-virtual-server', virtualServer: used }]));
      const before = kernel.counters.writes;
      await kernel.probeScheduler('wlc');
      expect(kernel.counters.writes).toBe(before);
    });

    test('prepare can be repeated, and a read writes nothing', async () => {
      const { kernel } = bed();
      const before = kernel.counters.writes;
      await kernel.prepare();
      await kernel.getVirtualServers();
      await kernel.getSets();
      await kernel.getBoundAddresses();
      await kernel.getNodeAddresses();
      await kernel.getUdpFlows(4);
      expect(await kernel.apply(new Transaction())).toEqual({ failures: [] });
      expect(kernel.counters.writes).toBe(before);
      expect(await bed().addresses()).toEqual([]);
    });
  });
}
