import { describe, expect, test } from '@jest/globals';
import type { IpsetEntry } from '../../src/netlink/family/ipset/entry.ts';
import { decodeFailedEntry, writeEntries } from '../../src/netlink/family/ipset/entry-message.ts';
import { ipsetErrorName } from '../../src/netlink/family/ipset/error-name.ts';
import { dumpSets } from '../../src/netlink/family/ipset/listing.ts';
import { IPSET_COMMAND, swapSets } from '../../src/netlink/family/ipset/message.ts';
import {
  chooseProtocol,
  getProtocol,
  type IpsetDefinition,
  createSet,
  decodeRevision,
  destroySet,
  getType,
} from '../../src/netlink/family/ipset/set.ts';
import { NLMSG_ERROR, answerOf } from '../../src/netlink/netlink-message.ts';
import { exchange } from './capture.ts';
import { allMessages, decoded, firstPayload, ip, listedSets, payloads, sentBytes, written } from './netlink.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/netlink-protocol.ts';

const V = 7;
const type = (command: number): number => (6 << 8) | command;
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex');

/** A captured request without NLM_F_EXCL: ipset sets it by default, and we never do. */
function repeatable(message: Uint8Array | undefined): string {
  const request = bytes(sentBytes(message));
  request[7] = request[7]! & ~2;
  return request.toString('hex');
}

const CREATE: readonly (readonly [string, IpsetDefinition])[] = [
  ['create-hash-ip', { name: 'h1', type: 'hash:ip', family: 4, revision: 6, hashSize: 2048, maxEntries: 100_000 }],
  ['create-ip-port', { name: 'h2', type: 'hash:ip,port', family: 4, revision: 7 }],
  ['create-ip-port-ip6', { name: 'h3', type: 'hash:ip,port,ip', family: 6, revision: 6 }],
  ['create-ip-port-net', { name: 'h4', type: 'hash:ip,port,net', family: 4, revision: 8 }],
  [
    'create-bitmap-port',
    { name: 'b1', type: 'bitmap:port', family: undefined, revision: 3, firstPort: 0, lastPort: 65_535 },
  ],
];

describe('what we write is what ipset writes, byte for byte', () => {
  test.each(CREATE)('%s, after asking for the protocol and the revisions of the type', (name, definition) => {
    const { sent, received } = exchange('ipset', name);
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => getProtocol(w)),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(sent[0])));
    // ipset asks before it has looked at the family that is wanted.
    const asked = definition.family === undefined ? undefined : 4;
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => getType(w, V, definition.type, asked)),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(sent[1])));
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => createSet(w, V, definition)),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, repeatable(sent[2])));
    expect(chooseProtocol(firstPayload(received, type(IPSET_COMMAND.protocol)))).toBe(V);
    expect(decodeRevision(firstPayload(received, type(IPSET_COMMAND.type)))).toBe(definition.revision);
  });

  test('commands on whole sets', () => {
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => swapSets(w, V, 'h2', 'h6')),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(exchange('ipset', 'swap').sent[1])));
    expect(written((w) => destroySet(w, V, 'h7'))).toBe(repeatable(exchange('ipset', 'destroy').sent[1]));
  });

  test('listings', () => {
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => dumpSets(w, V)),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(exchange('ipset', 'list').sent[1])));
    expect(
      decoded(
        NETLINK_NETFILTER,
        written((w) => dumpSets(w, V, { name: 'h2', headersOnly: true })),
      ),
    ).toBe(decoded(NETLINK_NETFILTER, sentBytes(exchange('ipset', 'list-terse').sent[1])));
  });
});

/** The nests IPSET_ATTR_DATA of a message, without the number of the line. */
function entryBytes(message: Uint8Array): string[] {
  return (
    Buffer.from(message)
      .toString('hex')
      // Each line number ends its nest, and nothing else here looks like one.
      .split(/0800094000[0-9a-f]{6}/)
      .flatMap((part) => /(?:[0-9a-f]{4}07800[14]|[0-9a-f]{4}0780)[0-9a-f]*$/.exec(part)?.[0] ?? [])
      .map((nest) => nest.slice(4))
  );
}

// ipset sends a single entry as IPSET_ATTR_DATA, and many as IPSET_ATTR_ADT; we send always the latter.
describe('entries', () => {
  const ENTRIES: readonly (readonly [string, string, IpsetEntry])[] = [
    ['add-hash-ip', 'h1', { address: ip('10.0.0.1') }],
    ['add-ip-port', 'h2', { address: ip('10.0.0.1'), protocol: 6, port: 80 }],
    ['add-ip-port-ip6', 'h3', { address: ip('fd00::1'), protocol: 17, port: 53, address2: ip('fd00::2') }],
    [
      'add-ip-port-net',
      'h4',
      { address: ip('10.0.0.1'), protocol: 132, port: 99, address2: ip('192.168.0.0'), prefix2: 16 },
    ],
    [
      'add-ip-port-net6',
      'h5',
      { address: ip('fd00::1'), protocol: 6, port: 99, address2: ip('fd00:1::'), prefix2: 64 },
    ],
    ['add-bitmap-port', 'b1', { port: 30_080 }],
  ];

  test.each(ENTRIES)('%s: the same nest', (name, set, entry) => {
    const sent = bytes(repeatable(exchange('ipset', name).sent.at(-1)));
    const ours = bytes(written((w) => writeEntries(w, V, 'add', set, [entry])));
    expect(ours.subarray(4, 8)).toEqual(sent.subarray(4, 8));
    expect(entryBytes(ours)).toHaveLength(1);
    expect(entryBytes(ours)).toEqual(entryBytes(sent));
  });

  test('many in one message, as ipset restore does; only the line of the message itself is 0', () => {
    const sent = exchange('ipset', 'restore-ip-port').sent.at(-1);
    const entries = [
      { address: ip('10.0.0.2'), protocol: 6, port: 80 },
      { address: ip('10.0.0.3'), protocol: 17, port: 53 },
      { address: ip('10.0.0.4'), protocol: 6, port: 443 },
    ];
    const ours = written((w) => writeEntries(w, V, 'add', 'h2', entries));
    expect(ours.replace('0800094000000000', '0800094000000001')).toBe(repeatable(sent));
  });

  test('deleting, and adding what may be there', () => {
    const entry = { address: ip('10.0.0.1'), protocol: 6, port: 80 };
    const deleting = bytes(written((w) => writeEntries(w, V, 'delete', 'h2', [entry])));
    const sent = bytes(repeatable(exchange('ipset', 'delete').sent.at(-1)));
    expect(deleting.subarray(4, 8)).toEqual(sent.subarray(4, 8));
    expect(entryBytes(deleting)).toEqual(entryBytes(sent));
    const adding = bytes(written((w) => writeEntries(w, V, 'add', 'h1', [{ address: ip('10.0.0.1') }])));
    const existing = bytes(sentBytes(exchange('ipset', 'add-exist').sent.at(-1)));
    expect(adding.subarray(6, 8)).toEqual(existing.subarray(6, 8));
  });
});

function plain(entries: readonly IpsetEntry[]): Record<string, unknown>[] {
  return entries
    .toSorted((a, b) => Number(a.address ?? 0) - Number(b.address ?? 0))
    .map((entry) => Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined)));
}

describe('what the kernel said to ipset', () => {
  test('sets with their entries', () => {
    const { received } = exchange('ipset', 'list');
    const sets = listedSets(payloads(received, type(IPSET_COMMAND.list)));
    const hash = { maxEntries: 65_536 };
    // Undefined fields go, and the entries are in the order of the kernel's hash.
    const sorted = sets.map((set) => ({ ...set, entries: plain(set.entries) }));
    expect(sorted).toEqual([
      expect.objectContaining({
        ...hash,
        name: 'h1',
        type: 'hash:ip',
        family: 4,
        maxEntries: 100_000,
        entries: [{ address: ip('10.0.0.1') }],
      }),
      expect.objectContaining({
        ...hash,
        name: 'h2',
        type: 'hash:ip,port',
        entries: [
          { address: ip('10.0.0.2'), port: 80, protocol: 6 },
          { address: ip('10.0.0.3'), port: 53, protocol: 17 },
          { address: ip('10.0.0.4'), port: 443, protocol: 6 },
          { address: ip('10.0.0.5'), port: 80, protocol: 6 },
        ],
      }),
      expect.objectContaining({
        ...hash,
        name: 'h3',
        type: 'hash:ip,port,ip',
        family: 6,
        entries: [{ address: ip('fd00::1'), port: 53, protocol: 17, address2: ip('fd00::2') }],
      }),
      expect.objectContaining({
        name: 'h4',
        type: 'hash:ip,port,net',
        entries: [{ address: ip('10.0.0.1'), port: 99, protocol: 132, address2: ip('192.168.0.0'), prefix2: 16 }],
      }),
      expect.objectContaining({
        name: 'b1',
        type: 'bitmap:port',
        family: undefined,
        entries: [{ port: 30_080 }],
      }),
      expect.objectContaining({
        name: 'h5',
        family: 6,
        entries: [{ address: ip('fd00::1'), port: 99, protocol: 6, address2: ip('fd00:1::'), prefix2: 64 }],
      }),
    ]);
  });

  test('a set in more than one message, and types that we do not know', () => {
    const { received } = exchange('ipset', 'list-more-messages-than-sets');
    const replies = payloads(received, type(IPSET_COMMAND.list));
    const sets = listedSets(replies);
    expect(replies.length).toBeGreaterThan(sets.length);
    expect(sets.map(({ name, type: of, entries }) => [name, of, entries.length])).toEqual([
      ['big', 'hash:ip,port', 250],
      ['nets', 'hash:net', 0],
      ['list:set', 'list:set', 0],
    ]);
    expect(new Set(sets[0]?.entries.map((entry) => entry.address)).size).toBe(250);
  });

  test('headers only', () => {
    const { received } = exchange('ipset', 'list-terse');
    const sets = listedSets(payloads(received, type(IPSET_COMMAND.list)));
    expect(sets).toMatchObject([{ name: 'h2', maxEntries: 65_536, entries: [] }]);
  });

  test.each([
    ['create-exists', 17, undefined],
    ['add-duplicate', 4103, 'IPSET_ERR_EXIST'],
    ['delete-missing', 4103, 'IPSET_ERR_EXIST'],
    ['list-missing', 2, undefined],
    ['restore-fails-at-line-2', 4103, 'IPSET_ERR_EXIST'],
  ])('%s is errno %d', (name, errno, symbol) => {
    const error = allMessages(exchange('ipset', name).received).findLast((message) => message.type === NLMSG_ERROR);
    expect(answerOf(error!)?.errno).toBe(errno);
    expect(ipsetErrorName(errno, 'hash:ip')).toBe(symbol);
  });

  test('the line at which it stopped', () => {
    const error = (name: string) =>
      allMessages(exchange('ipset', name).received).findLast((message) => message.type === NLMSG_ERROR)!;
    expect(decodeFailedEntry(error('restore-fails-at-line-2'))).toBe(1);
    expect(decodeFailedEntry(error('create-exists'))).toBeUndefined();
    // With NETLINK_CAP_ACK an ordinary error has no more of its request than the header.
    const { payload } = error('create-exists');
    expect(decodeFailedEntry({ flags: 0x100, payload: payload.subarray(0, 20) })).toBeUndefined();
  });
});
