import { readdirSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { listen } from '../../../../src/netlink/transport/multicast.ts';
import { NETLINK_ROUTE } from '../netlink-bytes.ts';

const openDescriptors = (): number => readdirSync('/proc/self/fd').length;

describe('listening', () => {
  test('joining a multicast group that does not exist fails and leaves no descriptor open', () => {
    const before = openDescriptors();
    for (let attempt = 0; attempt < 20; attempt++) {
      expect(() =>
        listen({
          protocol: NETLINK_ROUTE,
          groups: [1, 100_000],
          receiveBuffer: 65_536,
          onReports: () => undefined,
          onLost: () => undefined,
        }),
      ).toThrow('join multicast group');
    }
    expect(openDescriptors()).toBe(before);
  });
});
