import { type IpAddress, parseIp } from '../../src/base/ip.ts';
import { NLM_F_ACK } from '../../src/netlink/codec/flags.ts';
import { MessageWriter } from '../../src/netlink/codec/message-writer.ts';
import { type IpsetListing, setReader } from '../../src/netlink/family/ipset/listing.ts';
import { type NetlinkMessage, messages } from '../../src/netlink/netlink-message.ts';
import { traceMessages } from '../../src/netlink/trace/trace.ts';

// Left out of the comparison: sequence and port, which are the sender's own, and whether an acknowledgement is asked for,
// which the tools do by taste, and we by place in a batch.
function withoutSender(message: Uint8Array): string {
  const copy = Uint8Array.from(message);
  copy[6] = copy[6]! & ~NLM_F_ACK;
  copy.fill(0, 8, 16);
  return Buffer.from(copy).toString('hex');
}

/** The bytes of the one message that `write` appends, in hex. */
export function written(write: (writer: MessageWriter) => void): string {
  const writer = new MessageWriter();
  write(writer);
  return withoutSender(writer.finish(0).bytes);
}

/** The bytes of a captured message, likewise. */
export function sentBytes(message: Uint8Array | undefined): string {
  if (message === undefined) throw new Error('the capture has no such message');
  return withoutSender(message);
}

/** The payloads of the messages of one type in what a tool received. */
export function payloads(received: readonly Uint8Array[], type: number): Uint8Array[] {
  return received
    .flatMap((datagram) => [...messages(datagram)])
    .filter((message) => message.type === type)
    .map((message) => message.payload);
}

export function firstPayload(received: readonly Uint8Array[], type: number): Uint8Array {
  const [payload] = payloads(received, type);
  if (payload === undefined) throw new Error(`no message of type ${type} in the capture`);
  return payload;
}

export function allMessages(received: readonly Uint8Array[]): NetlinkMessage[] {
  return received.flatMap((datagram) => [...messages(datagram)]);
}

/** What a listing's messages say. */
export function listedSets(replies: readonly Uint8Array[]): readonly IpsetListing[] {
  const reader = setReader();
  for (const payload of replies) reader.read(payload);
  return reader.sets;
}

export function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

/** A message of one line for each of its attributes, and its bytes: so a difference shows as names and values. */
export function decoded(protocol: number, hex: string): string {
  const lines: string[] = [];
  traceMessages({ enabled: () => true, line: (text) => lines.push(text) }, 'sent', protocol, Buffer.from(hex, 'hex'));
  return [...lines.map((line) => line.replaceAll(' ', '\n')), hex].join('\n');
}
