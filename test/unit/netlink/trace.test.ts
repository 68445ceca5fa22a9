import { describe, expect, test } from '@jest/globals';
import { openConnection } from '../../../src/netlink/transport/connection.ts';
import { addHostRoute } from '../../../src/netlink/family/route/host-route.ts';
import { dumpLinks } from '../../../src/netlink/family/route/link.ts';
import { MessageWriter } from '../../../src/netlink/codec/message-writer.ts';
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from '../../../src/netlink/netlink-protocol.ts';
import { traceMessages } from '../../../src/netlink/trace/trace.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { captured, exchange } from '../../golden/capture.ts';

const PROTOCOLS: Readonly<Record<string, number>> = {
  'genl-ctrl': NETLINK_GENERIC,
  ipvsadm: NETLINK_GENERIC,
  ipset: NETLINK_NETFILTER,
  conntrack: NETLINK_NETFILTER,
  ip: NETLINK_ROUTE,
  'ip-dummy': NETLINK_ROUTE,
  'ip-route': NETLINK_ROUTE,
};

function trace(protocol: number, ...datagrams: readonly Uint8Array[]): string[] {
  const lines: string[] = [];
  const to = { enabled: () => true, line: (text: string) => lines.push(text) };
  for (const datagram of datagrams) traceMessages(to, 'sent', protocol, datagram);
  return lines;
}

describe('a traced message', () => {
  test('of IPVS: nests by family, with names and values', () => {
    const [line] = trace(NETLINK_GENERIC, ...exchange('ipvsadm', 'add-dest-tun6').sent);
    expect(line).toMatch(/^netlink sent: IPVS_CMD_NEW_DEST seq=\d+ flags=0x5 IPVS_CMD_ATTR_SERVICE=\{/);
    expect(line).toContain('IPVS_SVC_ATTR_PROTOCOL="TCP" IPVS_SVC_ATTR_ADDR=10.0.0.1 IPVS_SVC_ATTR_PORT=80 ');
    expect(line).toContain('IPVS_DEST_ATTR_ADDR_FAMILY=10 IPVS_DEST_ATTR_ADDR=fd00:2::9 IPVS_DEST_ATTR_PORT=80 ');
  });

  test('of ipset: the entries of a batch', () => {
    const line = trace(NETLINK_NETFILTER, ...exchange('ipset', 'restore-ip-port').sent).at(-1);
    expect(line).toContain('IPSET_CMD_ADD');
    expect(line).toMatch(/IPSET_ATTR_SETNAME="h2" .*IPSET_ATTR_ADT=\{IPSET_ATTR_DATA=\{IPSET_ATTR_IP=10\.0\.0\.2/);
  });

  test('of route: the fields of its header', () => {
    const writer = new MessageWriter();
    addHostRoute(writer, { cidr: parseCidr('10.0.0.0/24')!, index: 1, protocol: 4 });
    expect(trace(NETLINK_ROUTE, writer.finish(7).bytes)).toEqual([
      'netlink sent: RTM_NEWROUTE seq=7 flags=0x405 rtm_family=2 rtm_dst_len=24 rtm_table=255 rtm_protocol=4 rtm_scope=254 ' +
        'rtm_type=2 rtm_flags=0 RTA_DST=10.0.0.0 RTA_OIF=1',
    ]);
  });

  test('that refuses: errno by name, ipset names included', () => {
    expect(trace(NETLINK_NETFILTER, ...exchange('ipset', 'add-duplicate').received).at(-1)).toMatch(
      /NLMSG_ERROR seq=\d+ flags=0x\d+ errno=4103 IPSET_ERR_EXIST$/,
    );
    expect(trace(NETLINK_GENERIC, ...exchange('ipvsadm', 'add-exists').received)[0]).toMatch(/errno=17 EEXIST/);
  });

  test('of every capture has a name, and each attribute in it', () => {
    for (const [tool, protocol] of Object.entries(PROTOCOLS)) {
      for (const { sent, received } of captured(tool).values()) {
        // Some tools send room for attributes behind the message.
        const requests = sent.map((bytes) => bytes.subarray(0, Buffer.from(bytes).readUInt32LE(0)));
        for (const line of trace(protocol, ...requests, ...received)) {
          expect(line).toMatch(/^netlink sent: [A-Z_0-9]+ seq=\d+ flags=0x/);
          expect(line).not.toMatch(/undefined|not decodable/);
        }
      }
    }
  });

  test('that is damaged or unknown is shown in hexadecimal, and nothing is thrown', () => {
    const [message] = exchange('ipset', 'add-duplicate').sent.slice(-1);
    for (let end = 0; end < message!.length; end++) {
      const cut = Uint8Array.from(message!.subarray(0, end));
      if (end >= 4) cut[0] = end;
      expect(() => trace(NETLINK_NETFILTER, cut)).not.toThrow();
    }
    const [line] = trace(NETLINK_NETFILTER, message!.subarray(0, 9));
    expect(line).toMatch(/not decodable: .*: 0x[0-9a-f]+$/);
  });
});

test('a connection traces requests and replies while the trace is enabled, and asks once for each transaction', async () => {
  const lines: string[] = [];
  let asked = 0;
  let enabled = false;
  const isEnabled = (): boolean => {
    asked++;
    return enabled;
  };
  const connection = openConnection({
    protocol: NETLINK_ROUTE,
    trace: { enabled: isEnabled, line: (text) => lines.push(text) },
  });
  const ask = async (): Promise<void> => {
    const writer = new MessageWriter();
    dumpLinks(writer);
    const { bytes, segments } = writer.finish(connection.sequence(1));
    await connection.transact(bytes, segments);
  };
  await ask();
  expect([asked, lines]).toEqual([1, []]);
  enabled = true;
  await ask();
  connection.close();
  expect(asked).toBe(2);
  expect(lines[0]).toMatch(/^netlink sent: RTM_GETLINK seq=2 flags=0x301 .*IFLA_EXT_MASK=8$/);
  expect(lines[1]).toMatch(/^netlink received: RTM_NEWLINK .*IFLA_IFNAME="lo"/);
  expect(lines.at(-1)).toMatch(/^netlink received: NLMSG_DONE seq=2 /);
});
