import { expect, test } from '@jest/globals';
import { formatIp } from '../../src/base/ip.ts';
import { RTM_NEWROUTE } from '../../src/netlink/family/route/host-route.ts';
import { decodeChosenRoute, lookUpRoute } from '../../src/netlink/family/route/route-lookup.ts';
import { answerOf } from '../../src/netlink/netlink-message.ts';
import { NETLINK_ROUTE } from '../../src/netlink/netlink-protocol.ts';
import { exchange } from './capture.ts';
import { allMessages, decoded, firstPayload, ip, sentBytes, written } from './netlink.ts';

/** linux/rtnetlink.h: RTM_F_LOOKUP_TABLE, with which ip also asks IPv4 for the table of the route. */
const LOOKUP_TABLE = /(?<=^.{48})00100000/;

test.each([
  ['route-get-gateway-4', '10.9.0.1'],
  ['route-get-gateway-6', 'fd00:9::1'],
])('%s: the look-up of a route equals that of ip, byte for byte', (name, to) => {
  const theirs = sentBytes(exchange('ip-route', name).sent.at(-1)).replace(LOOKUP_TABLE, '00000000');
  const ours = written((writer) => lookUpRoute(writer, ip(to)));
  expect(decoded(NETLINK_ROUTE, ours)).toBe(decoded(NETLINK_ROUTE, theirs));
});

test.each([
  ['route-get-gateway-4', 'interface 3, gateway, source 10.8.0.1'],
  ['route-get-link-4', 'interface 3, source 10.8.0.1'],
  ['route-get-local-4', 'interface 1, local, source 10.8.0.1'],
  ['route-get-via-6', 'interface 3, gateway, source 10.8.0.1'],
  ['route-get-gateway-6', 'interface 3, gateway, source fd00:8::1'],
  ['route-get-link-6', 'interface 3, source fd00:8::1'],
  ['route-get-local-6', 'interface 1, local, source fd00:8::1'],
])('%s: %s', (name, expected) => {
  const route = decodeChosenRoute(firstPayload(exchange('ip-route', name).received, RTM_NEWROUTE));
  const words = [
    `interface ${route?.index}`,
    ...(route?.local === true ? ['local'] : []),
    ...(route?.gateway === true ? ['gateway'] : []),
    ...(route?.source === undefined ? [] : [`source ${formatIp(route.source)}`]),
  ];
  expect(words.join(', ')).toBe(expected);
});

test.each(['route-get-none-4', 'route-get-none-6'])('%s: errno 101 (ENETUNREACH)', (name) => {
  const [message] = allMessages(exchange('ip-route', name).received);
  expect(answerOf(message!)?.errno).toBe(101);
});

test('a route of another type delivers nothing', () => {
  const damaged = Uint8Array.from(firstPayload(exchange('ip-route', 'route-get-link-6').received, RTM_NEWROUTE));
  damaged[7] = 7;
  expect(decodeChosenRoute(damaged)).toBeUndefined();
});
