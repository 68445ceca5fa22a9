import { describe, expect, test } from '@jest/globals';
import {
  IFA_F_DEPRECATED,
  IFA_F_NODAD,
  RTM_NEWADDR,
  decodeAddress,
  deleteAddress,
  dumpAddresses,
  setAddress,
} from '../../src/netlink/family/route/address.ts';
import { RTM_NEWLINK, createLink, decodeLink, dumpLinks, getLink } from '../../src/netlink/family/route/link.ts';
import { NLMSG_ERROR, answerOf } from '../../src/netlink/netlink-message.ts';
import { exchange } from './capture.ts';
import { allMessages, decoded, ip, payloads, sentBytes, written } from './netlink.ts';
import { NETLINK_ROUTE } from '../../src/netlink/netlink-protocol.ts';

const request = (name: string): string => sentBytes(exchange('ip', name).sent.at(-1));

/** NLM_F_REPLACE, as of `ip address replace`, in place of NLM_F_EXCL. */
function replacing(name: string): string {
  const bytes = Buffer.from(request(name), 'hex');
  bytes[7] = (bytes[7]! & ~2) | 1;
  return bytes.toString('hex');
}

describe('what we write is what ip writes, byte for byte', () => {
  test('addresses', () => {
    const v4 = { index: 3, address: ip('10.9.0.1'), prefix: 32 };
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => setAddress(w, v4)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, replacing('addr-add')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => deleteAddress(w, v4)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('addr-delete')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => setAddress(w, { index: 3, address: ip('10.8.0.1'), prefix: 24 })),
      ),
    ).toBe(decoded(NETLINK_ROUTE, replacing('addr-add-24')));
    const deprecated = { index: 3, address: ip('fd00::1'), prefix: 128, flags: IFA_F_NODAD, preferredLifetime: 0 };
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => setAddress(w, deprecated)),
      ),
    ).toBe(decoded(NETLINK_ROUTE, replacing('addr-add-6')));
    expect(
      decoded(
        NETLINK_ROUTE,
        written((w) => deleteAddress(w, { index: 3, address: ip('fd00::2'), prefix: 128 })),
      ),
    ).toBe(decoded(NETLINK_ROUTE, request('addr-delete-6')));
  });

  test('a dummy: ip leaves the NUL behind the kind and the flag of the nest out', () => {
    const ours = written((w) => createLink(w, 'kube-ipvs0', 'dummy'));
    const theirs = sentBytes(exchange('ip-dummy', 'link-add-dummy').sent.at(-1));
    expect(ours.replace('100012800a000100', '1000120009000100')).toBe(theirs);
  });

  test('a link by name: ip asks for virtual functions too', () => {
    const ours = written((w) => getLink(w, 'lo'));
    expect(ours.replace('08001d0008', '08001d0009')).toBe(sentBytes(exchange('ip', 'link-show-one').sent[1]));
  });

  // Behind the header that counts, ip sends room for attributes.
  test('dumps', () => {
    const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex');
    const theirs = bytes(request('addr-show-6'));
    const ours = bytes(written((w) => dumpAddresses(w, 6)));
    expect(ours.subarray(4)).toEqual(theirs.subarray(4, 24));
    // AF_PACKET and RTEXT_FILTER_VF where we say AF_UNSPEC and RTEXT_FILTER_SKIP_STATS.
    const links = bytes(request('link-show'));
    links[16] = 0;
    links[36] = 8;
    expect(bytes(written(dumpLinks))).toEqual(links);
  });
});

describe('what the kernel said to ip', () => {
  test('links', () => {
    const links = payloads(exchange('ip', 'link-show').received, RTM_NEWLINK).map(decodeLink);
    // Their network namespace does not forward.
    const common = { master: undefined, up: true, forwards4: false };
    expect(links).toMatchObject([
      { ...common, index: 1, name: 'lo', kind: undefined, loopback: true },
      { ...common, index: 2, name: 'v1', kind: 'veth', loopback: false, up: false },
      { ...common, index: 3, name: 'v0', kind: 'veth', loopback: false },
    ]);
    const [dummy] = payloads(exchange('ip-dummy', 'link-show').received, RTM_NEWLINK).map(decodeLink);
    expect(dummy).toMatchObject({ index: 2, name: 'kube-ipvs0', kind: 'dummy' });
  });

  test('addresses', () => {
    const addresses = (name: string) => payloads(exchange('ip', name).received, RTM_NEWADDR).map(decodeAddress);
    expect(addresses('addr-show-4')).toEqual([
      { index: 1, address: ip('127.0.0.1'), prefix: 8, flags: 0x80 },
      { index: 3, address: ip('10.8.0.1'), prefix: 24, flags: 0x80 },
    ]);
    const [loopback, first] = addresses('addr-show-6');
    expect(loopback).toMatchObject({ index: 1, address: ip('::1'), prefix: 128 });
    expect(first).toMatchObject({ index: 3, address: ip('fd00::1'), prefix: 128 });
    expect(first!.flags & (IFA_F_NODAD | IFA_F_DEPRECATED)).toBe(IFA_F_NODAD | IFA_F_DEPRECATED);
  });

  test.each([
    ['ip', 'addr-add-exists', 17],
    ['ip', 'link-missing', 19],
    ['ip-dummy', 'link-add-exists', 17],
  ])('%s: %s is errno %d', (tool, name, errno) => {
    const error = allMessages(exchange(tool, name).received).findLast((message) => message.type === NLMSG_ERROR);
    expect(answerOf(error!)?.errno).toBe(errno);
  });
});
