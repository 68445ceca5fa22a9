import { describe, expect, test } from '@jest/globals';
import type { BatchConnection } from '../../src/kernel/linux/batch.ts';
import { ipvsFamily } from '../../src/kernel/linux/generic-family.ts';
import { decodeFamily, getFamily } from '../../src/netlink/family/genl-ctrl/family.ts';
import { exchange } from './capture.ts';
import { decoded, firstPayload, sentBytes, written } from './netlink.ts';
import { NETLINK_GENERIC } from '../../src/netlink/netlink-protocol.ts';

/** A connection that always answers this to message number 1. */
function answering(received: readonly Uint8Array[]): BatchConnection {
  return {
    maxSegment: 65_536,
    receiveBuffer: 1 << 20,
    sequence: () => 1,
    transact: () => {
      const reply = Buffer.concat(received);
      for (let at = 0; at < reply.length; at += reply.readUInt32LE(at)) reply.writeUInt32LE(1, at + 8);
      return Promise.resolve(Uint8Array.from(reply));
    },
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
    expect(decodeFamily(firstPayload(received, 16))).toBe(0x1c);
    await expect(ipvsFamily(answering(received))).resolves.toBe(0x1c);
  });

  test('a missing IPVS family is undefined', async () => {
    const { received } = exchange('genl-ctrl', 'resolve-missing');
    await expect(ipvsFamily(answering(received))).rejects.toMatchObject({
      name: 'KernelError',
      code: 'MISSING_MODULE',
    });
  });

  test('another refusal of the IPVS family is an error', async () => {
    const [error] = exchange('genl-ctrl', 'resolve-missing').received;
    const refused = Uint8Array.from(error!);
    refused[16] = 0xff;
    await expect(ipvsFamily(answering([refused]))).rejects.toMatchObject({ name: 'NetlinkError', code: 'EPERM' });
  });
});
