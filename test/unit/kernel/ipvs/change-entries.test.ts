import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import type { BatchConnection } from '../../../../src/kernel/linux/batch.ts';
import { type EntryChange, changeEntries } from '../../../../src/kernel/ipvs/change-entries.ts';
import type { IpSet } from '../../../../src/state/ip-set.ts';
import { ip } from '../../../contract/objects.ts';
import { concat, message, u32 } from '../../netlink/netlink-bytes.ts';

const { EINVAL } = constants.errno;
const IPSET_ATTR_LINENO = 9;
const NLMSG_ERROR = 2;

const SET: IpSet = { name: 'KUBE-TEST', type: 'hash:ip', family: 4, maxEntries: 65_536 };
const CHANGES = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((text): EntryChange => ({
  set: SET,
  entry: { type: 'hash:ip', address: ip(text) },
}));

/** An error that holds its request, as ipset's do: of that, only the line at which the kernel stopped. */
function refusedAt(line: number, sequence: number): Uint8Array {
  const bigEndian = new Uint8Array(4);
  new DataView(bigEndian.buffer).setUint32(0, line);
  const attribute = concat(u32(8 | (IPSET_ATTR_LINENO << 16)), bigEndian);
  const request = message({ type: (6 << 8) | 9, sequence }, concat(u32(0), attribute));
  return message({ type: NLMSG_ERROR, sequence }, concat(u32(-EINVAL), request));
}

/** A kernel that stops at these lines, one for each transaction, and takes what comes then. */
function stopsAt(...lines: number[]): BatchConnection & { readonly sent: number[] } {
  let next = 1;
  const sent: number[] = [];
  return {
    sent,
    maxSegment: 65_536,
    receiveBuffer: 1 << 20,
    sequence: (n) => (next += n) - n,
    transact: (request) => {
      const sequence = new DataView(request.buffer, request.byteOffset).getUint32(8, true);
      sent.push(request.length);
      const line = lines.shift();
      return Promise.resolve(line === undefined ? new Uint8Array(0) : refusedAt(line, sequence));
    },
  };
}

async function failedEntries(connection: BatchConnection): Promise<number[]> {
  const failures = await changeEntries(connection, 7, 'add', CHANGES, () => undefined);
  expect(failures.every(({ code }) => code === 'EINVAL')).toBe(true);
  return failures.map(({ item }) => CHANGES.indexOf(item));
}

describe('a message of entries at one of which the kernel stops', () => {
  test('if the kernel stops at one set entry, that one fails and those after it are tried again', async () => {
    const connection = stopsAt(2);
    expect(await failedEntries(connection)).toEqual([1]);
    expect(connection.sent).toHaveLength(2);
  });

  test('if the kernel names no set entry, all entries of the message fail', async () => {
    expect(await failedEntries(stopsAt(0))).toEqual([0, 1, 2]);
  });

  test('if the kernel names a set entry that is not in the message, all its entries fail', async () => {
    expect(await failedEntries(stopsAt(4))).toEqual([0, 1, 2]);
  });
});
