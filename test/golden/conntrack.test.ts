import { describe, expect, test } from '@jest/globals';
import { FLOW_MESSAGE, decodeFlow, deleteFlow, dumpFlows } from '../../src/netlink/family/conntrack/flow.ts';
import { exchange } from './capture.ts';
import { decoded, ip, payloads, sentBytes, written } from './netlink.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/protocol.ts';

const flow = (source: string, destination: string, protocol: number, ports: readonly [number, number]) => ({
  source: ip(source),
  destination: ip(destination),
  protocol,
  sourcePort: ports[0],
  destinationPort: ports[1],
});

/** IPS_CONFIRMED, not IPS_SEEN_REPLY. */
const CONFIRMED = 0x8;

describe('what we write is what conntrack writes', () => {
  test('a dump of one family', () => {
    const sent = exchange('conntrack', 'list-udp-6').sent[0];
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => dumpFlows(w, 6)),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(sent)));
  });

  // conntrack sends back the whole flow that it read; the kernel looks at the original tuple, zone and id.
  test.each([
    ['delete', { original: flow('10.0.0.9', '10.0.0.1', 17, [1234, 53]) }, ''],
    ['delete-zone', { original: flow('10.0.0.9', '10.0.0.2', 17, [1234, 53]), zone: 3 }, '0600120000030000'],
    ['delete-6', { original: flow('fd00::9', 'fd00::1', 17, [1234, 53]) }, ''],
  ])('%s: header, tuple and zone', (name, id, zone) => {
    const sent = sentBytes(exchange('conntrack', name).sent[1]);
    const ours = written((w) => deleteFlow(w, id));
    // Without the length of the message.
    expect(sent.slice(8)).toContain(ours.slice(8, ours.length - zone.length));
    expect(ours.slice(ours.length - zone.length)).toBe(zone);
    expect(sent).toContain(zone);
  });
});

describe('what the kernel said to conntrack', () => {
  test('flows of both families, with ports and without, translated and not', () => {
    const flows = payloads(exchange('conntrack', 'list').received, FLOW_MESSAGE).map(decodeFlow);
    expect(flows).toHaveLength(6);
    const udp = flows.find((f) => f?.original.protocol === 17 && f.mark === 5);
    expect(udp).toMatchObject({
      original: flow('10.0.0.9', '10.0.0.1', 17, [1234, 53]),
      reply: flow('10.1.0.1', '10.0.0.9', 17, [5353, 1234]),
      zone: 0,
    });
    expect(udp!.status & CONFIRMED).toBe(CONFIRMED);
    expect(udp?.id).toEqual(expect.any(Number));
    expect(flows.find((f) => f?.zone === 3)?.original).toEqual(flow('10.0.0.9', '10.0.0.2', 17, [1234, 53]));
    expect(flows.find((f) => f?.original.protocol === 1)?.original.sourcePort).toBeUndefined();
    expect(flows.find((f) => typeof f?.original.source === 'bigint')?.reply).toEqual(
      flow('fd00::1', 'fd00::9', 17, [53, 1234]),
    );
  });
});
