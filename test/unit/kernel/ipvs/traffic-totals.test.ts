import { expect, test } from '@jest/globals';
import { readTrafficTotals } from '../../../../src/kernel/ipvs/ipvs-kernel.ts';

const of = (text: string | undefined) => readTrafficTotals({ read: () => Promise.resolve(text) });

// Written by hand in the format of ip_vs_stats_show() of Linux 6.12; test/traffic/service-metrics.test.ts reads the file.
const STATS = `   Total Incoming Outgoing         Incoming         Outgoing
   Conns  Packets  Packets            Bytes            Bytes
      1A       FF      100            10000        123456789

 Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
       1        2        3                4                5
`;

test('the totals are the first line of numbers, in hexadecimal', async () => {
  expect(await of(STATS)).toEqual({
    connections: 26,
    incomingPackets: 255,
    outgoingPackets: 256,
    incomingBytes: 65_536,
    outgoingBytes: 4_886_718_345,
  });
});

test('without ip_vs, and from other text, there are none', async () => {
  expect(await of(undefined)).toBeUndefined();
  expect(await of('something else\n1 2\n')).toBeUndefined();
});
