import { describe, expect, test } from '@jest/globals';
import { forEachAttribute } from '../../../../src/netlink/codec/decode.ts';
import { MessageWriter } from '../../../../src/netlink/codec/message-writer.ts';
import { template } from '../../../../src/netlink/codec/template.ts';
import { type IpsetEntry, addEntries, decodeEntry } from '../../../../src/netlink/family/ipset/entry.ts';
import { addDestination, decodeDestination, editDestination } from '../../../../src/netlink/family/ipvs/destination.ts';
import { messages } from '../../../../src/netlink/message.ts';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';

function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(text);
  return address;
}

const written = (write: (writer: MessageWriter) => void): Uint8Array[] => {
  const writer = new MessageWriter();
  write(writer);
  return Array.from(messages(writer.finish(1).bytes), ({ payload }) => payload);
};

const V4 = ip('10.96.0.1');
const V6 = ip('fd00:96::1');

// Templates are shared: whatever one message leaves in them would show in the next.
describe('what is copied from a template is what the tables read', () => {
  test('destinations, of both families below services of both, one after the other', () => {
    const wanted = [V4, V6].flatMap((service) =>
      [ip('10.64.0.9'), ip('fd00:64::9'), ip('255.255.255.255'), ip('ffff::ffff')].flatMap((address, index) => [
        {
          service,
          destination: { address, port: 65_535, weight: 7, forwarding: 3, upperThreshold: 9, lowerThreshold: 4 },
        },
        { service, destination: { address, port: index, weight: 0 } },
      ]),
    );
    const payloads = written((writer) => {
      for (const { service, destination } of wanted) {
        const id = { address: service, port: 443, protocol: 'SCTP' } as const;
        addDestination(writer, 30, id, destination);
        editDestination(writer, 31, { ...id, port: 1, protocol: 'UDP' }, destination);
      }
    });
    const plain = { forwarding: 0, upperThreshold: 0, lowerThreshold: 0 };
    const counters = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
    expect(payloads.map((payload) => decodeDestination(payload, 4))).toEqual(
      wanted.flatMap(({ destination }) => [destination, destination].map((one) => ({ ...plain, ...counters, ...one }))),
    );
    expect(payloads.map(([command]) => command)).toEqual(wanted.flatMap(() => [5, 6]));
  });

  test('set entries of every shape, one after the other', () => {
    const shapes: readonly IpsetEntry[] = [
      { address: V4 },
      { address: V6 },
      { port: 30_000 },
      { address: V4, protocol: 6, port: 80 },
      { address: V6, protocol: 132, port: 65_535 },
      { address: V4, protocol: 17, port: 53, address2: ip('10.64.0.9') },
      { address: V6, protocol: 17, port: 53, address2: ip('fd00:64::9') },
      { address: V4, protocol: 6, port: 1, address2: ip('192.0.2.0'), prefix2: 24 },
      { address: V6, protocol: 6, port: 1, address2: ip('2001:db8::'), prefix2: 32 },
    ];
    const wanted = [...shapes, ...shapes.map((entry) => ({ ...entry, ...('port' in entry ? { port: 2 } : {}) }))];
    const [payload = new Uint8Array(0)] = written((writer) => void addEntries(writer, 7, 'KUBE-X', wanted));
    const found: IpsetEntry[] = [];
    const lines: number[] = [];
    forEachAttribute(payload, 4, payload.length, (id, start, end) => {
      if (id !== 8) return;
      forEachAttribute(payload, start, end, (_id, from, to) => {
        found.push(decodeEntry(payload, from, to));
        forEachAttribute(payload, from, to, (inner, at) => {
          if (inner === 9) lines.push(new DataView(payload.buffer, payload.byteOffset).getUint32(at));
        });
      });
    });
    expect(found).toEqual(wanted);
    expect(lines).toEqual(wanted.map((_, index) => index + 1));
  });

  test('a template has an offset only for what is in it', () => {
    const { words, offset } = template((writer) => {
      const mark = writer.beginAttribute(3);
      const inner = writer.beginAttribute(5);
      writer.u32(1);
      writer.endAttribute(inner);
      writer.endAttribute(mark);
    });
    expect(words).toHaveLength(3);
    expect([offset(0, 3), offset(0, 3, 5), offset(0, 4), offset(0, 3, 4)]).toEqual([4, 8, -1, -1]);
  });
});
