import { forEachAttribute, type Row, type Rows, type Table } from '../codec/attribute-table.ts';
import { readHeader } from '../codec/header.ts';
import { errnoName } from '../error.ts';
import { ipsetErrorName } from '../family/ipset/error-name.ts';
import { NLMSG_DONE, type NetlinkMessage, answerOf, messages } from '../netlink-message.ts';
import { NETLINK_NETFILTER } from '../netlink-protocol.ts';
import { layoutOf } from './layout.ts';

/** Receives a description of each message of a socket while enabled() is true. */
export interface Trace {
  /** Called once per transaction. */
  enabled(): boolean;
  line(text: string): void;
}

/** Maximum number of bytes shown in hexadecimal. */
const SHOWN_BYTES = 32;

/** Writes one line per message of a request or reply. Never throws: undecodable bytes are shown in hexadecimal. */
export function traceMessages(trace: Trace, direction: 'sent' | 'received', protocol: number, bytes: Uint8Array): void {
  try {
    for (const message of messages(bytes)) trace.line(`netlink ${direction}: ${describeMessage(protocol, message)}`);
  } catch (error) {
    trace.line(`netlink ${direction}: not decodable: ${String(error)}: ${hex(bytes)}`);
  }
}

/** Returns the command, sequence number, flags, header fields and attributes, named as in the kernel's headers. */
export function describeMessage(protocol: number, message: NetlinkMessage): string {
  const { type, flags, sequence, payload } = message;
  const head = (name: string): string => `${name} seq=${sequence} flags=0x${flags.toString(16)}`;
  const answer = answerOf(message);
  if (answer !== undefined) {
    const { errno, text, offset } = answer;
    const words = [head(type === NLMSG_DONE ? 'NLMSG_DONE' : 'NLMSG_ERROR'), `errno=${errno}`];
    if (errno !== 0) words.push(nameOf(protocol, errno));
    if (text !== undefined) words.push(JSON.stringify(text));
    if (offset !== undefined) words.push(`offset=${offset}`);
    return words.join(' ');
  }
  const layout = layoutOf(protocol, type, payload);
  if (layout === undefined || payload.length < layout.header.size) return `${head(`type ${type}`)} ${hex(payload)}`;
  const fields = Object.entries(readHeader(layout.header, payload)).filter(([name]) => name !== '');
  return [
    head(layout.name),
    ...fields.map(([name, value]) => `${name}=${value}`),
    ...attributes(layout.table, payload, layout.header.size, payload.length),
  ].join(' ');
}

function nameOf(protocol: number, errno: number): string {
  return (protocol === NETLINK_NETFILTER ? ipsetErrorName(errno, '') : undefined) ?? errnoName(errno);
}

function attributes(table: Table<Rows>, bytes: Uint8Array, start: number, end: number): string[] {
  const found: string[] = [];
  try {
    forEachAttribute(bytes, start, end, (id, from, to) => {
      const row = Object.values(table.rows).find((known) => known.id === id);
      found.push(row === undefined ? `${id}=${hex(bytes.subarray(from, to))}` : attribute(row, bytes, from, to));
    });
  } catch (error) {
    found.push(`not decodable: ${String(error)}`);
  }
  return found;
}

function attribute({ constant, kind }: Row<unknown>, bytes: Uint8Array, start: number, end: number): string {
  if (kind.inner !== undefined) {
    return `${constant}={${attributes(kind.inner(bytes, start, end), bytes, start, end).join(' ')}}`;
  }
  if (kind.size !== undefined && kind.size !== end - start) return `${constant}=${hex(bytes.subarray(start, end))}`;
  try {
    const value = kind.read(bytes, start, end);
    const text = kind.show?.(value) ?? (typeof value === 'string' ? JSON.stringify(value) : String(value));
    return `${constant}=${text}`;
  } catch {
    return `${constant}=${hex(bytes.subarray(start, end))}`;
  }
}

function hex(bytes: Uint8Array): string {
  const shown = Buffer.from(bytes.subarray(0, SHOWN_BYTES)).toString('hex');
  return bytes.length > SHOWN_BYTES ? `0x${shown}... (${bytes.length} bytes)` : `0x${shown}`;
}
