import { describe, expect, test } from '@jest/globals';
import { decodeFlow, deleteFlow, dumpFlows } from '../../src/netlink/family/conntrack/flow.ts';
import { exchange } from './capture.ts';
import { ip, payloads, sentBytes, written } from './netlink.ts';

const flow = (source: string, destination: string, protocol: number, ports: readonly [number, number]) => ({
  source: ip(source),
  destination: ip(destination),
  protocol,
  sourcePort: ports[0],
  destinationPort: ports[1],
});

/** linux/netfilter: NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW. */
const FLOW_MESSAGE = 0x100;

describe('what we write is what conntrack writes', () => {
  // conntrack filters the flows itself.
  test('a dump of one family: the header', () => {
    const ours = written((w) => dumpFlows(w, 6, { protocol: 17 }));
    expect(ours.slice(8, 40)).toBe(sentBytes(exchange('conntrack', 'list-udp-6').sent[0]).slice(8, 40));
  });

  // conntrack sends back the whole flow that it read; the kernel looks at the original tuple.
  test.each([
    ['delete', flow('10.0.0.9', '10.0.0.1', 17, [1234, 53])],
    ['delete-6', flow('fd00::9', 'fd00::1', 17, [1234, 53])],
  ])('%s: header and tuple', (name, original) => {
    const sent = sentBytes(exchange('conntrack', name).sent[1]);
    // Without the length of the message.
    expect(sent.slice(8)).toContain(written((w) => deleteFlow(w, original)).slice(8));
  });
});

describe('what the kernel said to conntrack', () => {
  test('flows of both families, with ports and without, translated and not', () => {
    const flows = payloads(exchange('conntrack', 'list').received, FLOW_MESSAGE).map(decodeFlow);
    expect(flows).toHaveLength(6);
    expect(flows).toContainEqual({
      original: flow('10.0.0.9', '10.0.0.1', 17, [1234, 53]),
      reply: flow('10.1.0.1', '10.0.0.9', 17, [5353, 1234]),
    });
    expect(flows.find((f) => f?.original.protocol === 1)?.original.sourcePort).toBeUndefined();
    expect(flows.find((f) => typeof f?.original.source === 'bigint')?.reply).toEqual(
      flow('fd00::1', 'fd00::9', 17, [53, 1234]),
    );
  });
});
