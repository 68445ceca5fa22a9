import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../src/base/cidr.ts';
import { toPort } from '../../src/base/port.ts';
import { DROP, NEW_CONNECTION, RETURN, TO_THIS_NODE } from '../../src/kernel/nftables/objects/steps.ts';
import type { RulePart } from '../../src/kernel/nftables/port/nft-message.ts';
import * as steps from '../../src/kernel/nftables/objects/steps.ts';
import { endpointData, endpointKey, serviceKey, addressKey } from '../../src/kernel/nftables/objects/keys.ts';
import { affinityMap, affinitySet, constantSets, sourcesSet } from '../../src/kernel/nftables/objects/sets.ts';
import { nftText } from '../support/nft-text.ts';
import { beginBatch, endBatch } from '../../src/netlink/family/nf-tables/nft-batch.ts';
import { decodeChain, deleteChain, newChain } from '../../src/netlink/family/nf-tables/chain.ts';
import { NFT_VERDICT } from '../../src/netlink/family/nf-tables/data.ts';
import { decodeElements, deleteElements, newElements } from '../../src/netlink/family/nf-tables/element.ts';
import { nftType } from '../../src/netlink/family/nf-tables/message.ts';
import { decodeRule, deleteRules } from '../../src/netlink/family/nf-tables/rule.ts';
import { decodeSet, newSet } from '../../src/netlink/family/nf-tables/set.ts';
import { decodeTable, deleteTable, newTable } from '../../src/netlink/family/nf-tables/table.ts';
import { tableComment } from '../../src/netlink/family/nf-tables/user-data.ts';
import { MessageWriter } from '../../src/netlink/codec/message-writer.ts';
import { type NetlinkMessage, messages } from '../../src/netlink/netlink-message.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/netlink-protocol.ts';
import { exchange } from './capture.ts';
import { decoded, firstPayload, ip, sentBytes, written } from './netlink.ts';

const TABLE = 'kube-proxy';
const SERVICE = { address: ip('10.96.0.1'), protocol: 'TCP', port: toPort(80)! } as const;

/** The messages of the batch that nft sent. */
function batch(name: string): Uint8Array[] {
  const [sent = new Uint8Array()] = exchange('nft', name).sent;
  const found: Uint8Array[] = [];
  for (let at = 0; at < sent.length;) {
    const length = new DataView(sent.buffer, sent.byteOffset).getUint32(at, true);
    found.push(sent.slice(at, at + length));
    at += (length + 3) & ~3;
  }
  return found;
}

/** The messages between BEGIN and END. */
function changes(name: string): Uint8Array[] {
  return batch(name).slice(1, -1);
}

function expectSame(write: (writer: MessageWriter) => void, captured: Uint8Array | undefined): void {
  expect(decoded(NETLINK_NETFILTER, written(write))).toBe(decoded(NETLINK_NETFILTER, sentBytes(captured)));
}

function only(bytes: Uint8Array | undefined): NetlinkMessage {
  const [message] = messages(bytes ?? new Uint8Array());
  if (message === undefined) throw new Error('no message');
  return message;
}

describe('what we write is what nft writes, byte for byte', () => {
  test('the limits of a batch', () => {
    const found = batch('table');
    expectSame((writer) => beginBatch(writer, undefined), found[0]);
    const writer = new MessageWriter({ messages: Infinity, bytes: Infinity });
    beginBatch(writer, undefined);
    newTable(writer, 4, { name: TABLE });
    endBatch(writer);
    const { bytes, segments } = writer.finish(1);
    expect(segments).toEqual([bytes.length]);
    const sent = [...messages(bytes)];
    expect(sentBytes(bytes.slice(-20))).toBe(sentBytes(found.at(-1)));
    // Only the message before the end is acknowledged.
    expect(sent.map(({ flags }) => (flags & 4) !== 0)).toEqual([false, true, false]);
  });

  test('the removal of rules, chains and tables', () => {
    const [flush, chain, table] = changes('delete-chain');
    expectSame((writer) => deleteRules(writer, 4, { table: TABLE, chain: 'choose-3' }), flush);
    expectSame((writer) => deleteChain(writer, 4, { table: TABLE, name: 'choose-3' }), chain);
    expectSame((writer) => deleteTable(writer, 4, TABLE), table);
    expect(changes('delete-chain')).toHaveLength(3);
  });
});

describe('what we write means what nft writes', () => {
  const payloadOf = (write: (writer: MessageWriter) => void): Uint8Array =>
    only(Uint8Array.from(Buffer.from(written(write), 'hex'))).payload;

  test('tables', () => {
    const [found] = changes('table');
    const ours = payloadOf((writer) => newTable(writer, 4, { name: TABLE, userData: tableComment('rules') }));
    expect(decodeTable(ours)).toEqual(decodeTable(only(found).payload));
  });

  test('chains', () => {
    const [plain, base] = changes('chains').map((message) => decodeChain(only(message).payload));
    expect(decodeChain(payloadOf((writer) => newChain(writer, 4, { table: TABLE, name: 'services' })))).toEqual(plain);
    const hook = { type: 'nat', hook: 'prerouting', priority: -100 } as const;
    const ours = payloadOf((writer) => newChain(writer, 4, { table: TABLE, name: 'nat-prerouting', base: hook }));
    expect(decodeChain(ours)).toEqual(base);
  });

  test('maps and dynamic sets, with how nft shows them', () => {
    const [map, clients, byIndex, sources] = changes('sets').map((message) => decodeSet(only(message).payload));
    const endpoints = constantSets(4).find(({ name }) => name === 'service-endpoints')!;
    const ours = decodeSet(payloadOf((writer) => newSet(writer, 4, { ...endpoints, table: TABLE }, 1)));
    const { userData: shown, ...rest } = ours;
    expect(rest).toEqual({
      ...map,
      userData: undefined,
      size: undefined,
      ...rest,
      keyType: map!.keyType,
      dataType: map!.dataType,
    });
    // nft adds a note that a range is none of the data, before the comment.
    const notesOf = (userData: Uint8Array | undefined): string =>
      Buffer.from(userData!).toString('hex').replace('060400000000', '');
    expect(notesOf(shown)).toBe(notesOf(map!.userData));
    const affinity = { ...affinitySet('clients', 10_800, 4), table: TABLE };
    expect(decodeSet(payloadOf((writer) => newSet(writer, 4, affinity, 2)))).toMatchObject({
      flags: clients!.flags,
      keyType: clients!.keyType,
      keyLength: clients!.keyLength,
      timeout: clients!.timeout,
      // The kernel's limit.
      size: undefined,
    });
    const ofEndpoints = decodeSet(
      payloadOf((writer) => newSet(writer, 4, { ...affinityMap('by-index'), table: TABLE }, 3)),
    );
    expect(notesOf(ofEndpoints.userData)).toBe(notesOf(byIndex!.userData));
    const { userData: _notes, dataLength, ...others } = ofEndpoints;
    expect({ ...byIndex, dataLength }).toMatchObject(others);
    const intervals = decodeSet(
      payloadOf((writer) => newSet(writer, 4, { ...sourcesSet('sources', 4), table: TABLE }, 4)),
    );
    expect(sources).toMatchObject({ ...intervals, userData: expect.anything() });
  });

  test('elements', () => {
    const [endpoint, verdict, gone] = changes('elements').map((message) => only(message));
    const target = { address: ip('10.244.0.7'), port: toPort(8080)! };
    const elements = [{ key: endpointKey(SERVICE, 2), data: { value: endpointData(target) } }];
    const ours = payloadOf((writer) => newElements(writer, 4, { table: TABLE, set: 'service-endpoints', elements }));
    expect(decodeElements(ours)).toEqual(decodeElements(endpoint!.payload));
    const code = NFT_VERDICT.goto;
    const chosen = [{ key: serviceKey(SERVICE), data: { verdict: { code, chain: 'choose-3' } } }];
    const second = payloadOf((writer) =>
      newElements(writer, 4, { table: TABLE, set: 'service-ips', elements: chosen }),
    );
    expect(decodeElements(second)).toEqual(decodeElements(verdict!.payload));
    const removed = [{ key: addressKey(SERVICE.address) }];
    const third = payloadOf((writer) =>
      deleteElements(writer, 4, { table: TABLE, set: 'cluster-ips', elements: removed }),
    );
    expect(decodeElements(third)).toEqual(decodeElements(gone!.payload));
  });

  test('the beginnings and ends of intervals', () => {
    const [added, , deleted] = changes('intervals').map((message) => decodeElements(only(message).payload));
    const element = (text: string, isEnd = false) => ({ key: addressKey(ip(text)), ...(isEnd && { isEnd }) });
    const wide = [element('10.0.0.0'), element('11.0.0.0', true)];
    // nft says first that the addresses before the first interval are in none.
    const all = [element('0.0.0.0', true), ...wide, element('192.0.2.1'), element('192.0.2.2', true)];
    const names = { table: TABLE, set: 'sources' };
    const ours = payloadOf((writer) => newElements(writer, 4, { ...names, elements: all }));
    expect(decodeElements(ours)).toEqual(added);
    const gone = payloadOf((writer) => deleteElements(writer, 4, { ...names, elements: wide }));
    expect(decodeElements(gone)).toEqual(deleted);
  });

  const MARK = 0x4000;
  const PORTS = { from: toPort(61_000)!, to: toPort(62_000)! };
  const rule = steps.rule;
  const RULES: Readonly<Record<string, RulePart>> = {
    'rule-choose': steps.chooseEndpoint('service-endpoints', 3, 4),
    'rule-choose-index': steps.chooseIndex('by-index', 3),
    'rule-remember': steps.rememberClient('clients', 10_800, 4),
    'rule-remembered': rule(steps.inSet('clients', 'service-and-source', 4), steps.goto('a')),
    'rule-sources': rule(steps.inSet('sources', 'source', 4), RETURN),
    'rule-verdict': steps.serviceVerdict('service-ips', 4),
    'rule-new': rule(NEW_CONNECTION, steps.jump('a')),
    'rule-outside': rule(steps.sourceIn(parseCidr('10.201.0.0/17')!, true), DROP),
    'rule-interface': rule(steps.notFromInterface('veth+'), RETURN),
    'rule-bridge': rule(steps.notFromInterface('cni0'), RETURN),
    'rule-echo': rule(steps.echoRequest(4), steps.inSet('cluster-ips', 'destination', 4), TO_THIS_NODE),
    'rule-mark': steps.setMark(MARK),
    'rule-invert': steps.invertMark(MARK),
    'rule-unmarked': rule(steps.unmarked(MARK), RETURN),
    'rule-masquerade': steps.masquerade(true, undefined),
    'rule-reject': steps.reject(4),
    'rule-hairpin': rule(steps.inSet('hairpin', 'service-and-source', 4), RETURN),
    'rule6-remember': steps.rememberClient('clients', 10_800, 6),
    'rule6-choose': steps.chooseEndpoint('service-endpoints', 3, 6),
    'rule6-outside': rule(steps.sourceIn(parseCidr('fd00:201::/50')!, true), DROP),
    'rule6-echo': rule(steps.echoRequest(6), steps.inSet('cluster-ips', 'destination', 6), TO_THIS_NODE),
    'rule6-reject': steps.reject(6),
    'rule6-hairpin': rule(steps.inSet('hairpin', 'service-and-source', 6), RETURN),
  };

  // Other words for the same duration, operator or number; a protocol that nft adds itself.
  const WORDED_OTHERWISE: ReadonlySet<string> = new Set(
    ['remember', 'echo', 'mark', 'invert', 'unmarked'].flatMap((each) => [`rule-${each}`, `rule6-${each}`]),
  );

  function ruleOf(name: string): readonly object[] {
    const found = changes(name).map(only);
    const message = found.find(({ type }) => type === nftType(6));
    return decodeRule(message!.payload).expressions;
  }

  // nft leaves out the end of a range of one address and port and the flag of an address; the kernel reports them.
  const withoutRange = (text: string): string =>
    text.replaceAll(/"last(Address|Port)":\d+,/g, '').replaceAll(/"flags":[23],/g, '');

  test.each(Object.entries(RULES))('%s', (name, ours) => {
    expect(withoutRange(nftText(ours.expressions))).toBe(withoutRange(nftText(ruleOf(name))));
    expect(exchange('nft', name).command.includes(` ${ours.text}`)).toBe(!WORDED_OTHERWISE.has(name));
  });

  // These load ports into other registers than nft does, with the same effect.
  const inOneRegister = (text: string): string =>
    withoutRange(text).replaceAll(/"(destination|port|address)":(2|1)/g, '"$1":R');
  const LOADING: Readonly<Record<string, RulePart>> = {
    'rule-translate': steps.translateTo('TCP', { address: ip('10.244.0.7'), port: toPort(8080)! }),
    'rule6-translate': steps.translateTo('TCP', { address: ip('fd01::7'), port: toPort(8080)! }),
    'rule-masquerade-ports': rule(steps.ofProtocol('TCP'), steps.masquerade(true, PORTS)),
  };

  test.each(Object.entries(LOADING))('%s', (name, ours) => {
    expect(inOneRegister(nftText(ours.expressions))).toBe(inOneRegister(nftText(ruleOf(name))));
    expect(exchange('nft', name).command).toContain(` ${ours.text}`);
  });
});

describe('what the kernel says is read', () => {
  const { received } = exchange('nft', 'listing');

  test('tables, chains, sets and elements of a listing', () => {
    expect(decodeTable(firstPayload(received, nftType(0))).name).toBe(TABLE);
    expect(decodeChain(firstPayload(received, nftType(3)))).toMatchObject({ table: TABLE, name: 'choose-3' });
    const endpoints = constantSets(4).find(({ name }) => name === 'service-endpoints')!;
    const { flags, keyType, keyLength, dataType, dataLength } = endpoints;
    const found = decodeSet(firstPayload(received, nftType(9)));
    expect(found).toMatchObject({ name: 'service-endpoints', flags, keyType, keyLength, dataType, dataLength });
    expect(decodeElements(firstPayload(received, nftType(12)))).toEqual([
      {
        key: endpointKey(SERVICE, 2),
        data: { value: endpointData({ address: ip('10.244.0.7'), port: toPort(8080)! }) },
      },
    ]);
  });
});
