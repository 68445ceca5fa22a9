import { describe, expect, test } from '@jest/globals';
import type { Connection } from '../../src/netlink/connection.ts';
import {
  FamilyMissingError,
  decodeFamily,
  getFamily,
  resolveFamily,
} from '../../src/netlink/family/genl-ctrl/family.ts';
import { exchange } from './capture.ts';
import { decoded, firstPayload, sentBytes, written } from './netlink.ts';
import { NETLINK_GENERIC } from '../../src/netlink/protocol.ts';

/** A connection that always answers this. */
function answering(received: readonly Uint8Array[]): Connection {
  return {
    sequence: () => 1,
    transact: () => Promise.resolve(Uint8Array.from(Buffer.concat(received))),
    counters: { sends: 0, bytesSent: 0, bytesReceived: 0, messages: 0, systemCalls: 0 },
    close: () => undefined,
  };
}

describe('the family IPVS', () => {
  test('the request for the IPVS family equals that of ipvsadm', () => {
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => getFamily(w, 'IPVS')),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(exchange('genl-ctrl', 'resolve').sent[0])));
  });

  test('the IPVS family is found', async () => {
    const { received } = exchange('genl-ctrl', 'resolve');
    const family = { id: 0x1c, name: 'IPVS', version: 1 };
    expect(decodeFamily(firstPayload(received, 16))).toEqual(family);
    await expect(resolveFamily(answering(received), 'IPVS')).resolves.toEqual(family);
  });

  test('a missing IPVS family is undefined', async () => {
    const { received } = exchange('genl-ctrl', 'resolve-missing');
    await expect(resolveFamily(answering(received), 'IPVS')).rejects.toThrow(FamilyMissingError);
    await expect(resolveFamily(answering(received), 'IPVS')).rejects.toThrow(/IPVS: is its module loaded/);
  });

  test('another refusal of the IPVS family is an error', async () => {
    const [error] = exchange('genl-ctrl', 'resolve-missing').received;
    const refused = Uint8Array.from(error!);
    refused[16] = 0xff;
    await expect(resolveFamily(answering([refused]), 'IPVS')).rejects.toMatchObject({
      name: 'NetlinkError',
      code: 'EPERM',
    });
  });
});
