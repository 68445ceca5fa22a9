import { describe, expect, test } from '@jest/globals';
import { cidrOf, formatCidr } from '../../src/base/cidr.ts';
import {
  RTM_NEWROUTE,
  RTPROT_KERNEL,
  addHostRoute,
  decodeLocalTable,
  deleteHostRoute,
  dumpRoutes,
} from '../../src/netlink/family/route/host-route.ts';
import { answerOf } from '../../src/netlink/netlink-message.ts';
import { exchange } from './capture.ts';
import { allMessages, decoded, ip, payloads, sentBytes, written } from './netlink.ts';
import { NETLINK_ROUTE } from '../../src/netlink/netlink-protocol.ts';

const V4 = { cidr: cidrOf(ip('10.9.0.0'), 16), index: 3, protocol: 120 };
const V6 = { cidr: cidrOf(ip('fd00:9::'), 112), index: 3, protocol: 120 };

const request = (name: string): string => sentBytes(exchange('ip-route', name).sent.at(-1));

describe('local routes', () => {
  test('messages that add and delete local routes equal those of ip, byte for byte', () => {
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => addHostRoute(w, V4)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('route-prepend')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => deleteHostRoute(w, V4)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('route-delete')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => addHostRoute(w, V6)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('route-prepend-6')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => deleteHostRoute(w, V6)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('route-delete-6')));
  });

  // The kernel heeds the table only for sockets with NETLINK_GET_STRICT_CHK. ip sends room for more behind it.
  test('the request for local routes names the table as ip does', () => {
    for (const family of [4, 6] as const) {
      const theirs = Buffer.from(request(`route-show-${family}`), 'hex');
      const ours = Buffer.from(
        written((w) => dumpRoutes(w, family)),
        'hex',
      );
      expect(ours.subarray(4)).toEqual(theirs.subarray(4, 36));
    }
  });

  test('local routes are distinguished from all others in replies of the kernel to ip', () => {
    const found = (name: string) =>
      payloads(exchange('ip-route', name).received, RTM_NEWROUTE)
        .map(decodeLocalTable)
        .filter((route) => route !== undefined)
        .filter(({ isLocal }) => isLocal)
        .map(({ cidr, index, protocol }) => [formatCidr(cidr), index, protocol]);
    expect(found('route-show-4')).toEqual([
      ['10.9.0.0/16', 3, 120],
      ['127.0.0.0/8', 1, RTPROT_KERNEL],
      ['127.0.0.1/32', 1, RTPROT_KERNEL],
    ]);
    expect(found('route-show-6')).toContainEqual(['fd00:9::/112', 3, 120]);
    expect(found('route-show-6')).toContainEqual(['::1/128', 1, RTPROT_KERNEL]);
  });

  test.each([
    ['route-prepend-exists', 17],
    ['route-delete-absent', 3],
  ])('%s: errno %d', (name, errno) => {
    const [message] = allMessages(exchange('ip-route', name).received);
    expect(answerOf(message!)?.errno).toBe(errno);
  });

  test.each([0, 11])('%d bytes are not a route', (length) => {
    expect(() => decodeLocalTable(new Uint8Array(length))).toThrow('struct rtmsg');
  });

  test('a prefix that is too long is an error', () => {
    const [payload] = payloads(exchange('ip-route', 'route-show-4').received, RTM_NEWROUTE);
    const damaged = Uint8Array.from(payload!);
    damaged[1] = 33;
    expect(() => decodeLocalTable(damaged)).toThrow('rtm_dst_len');
  });
});
