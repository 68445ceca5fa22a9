import { describe, expect, test } from '@jest/globals';
import { NetlinkError, errnoName, malformed } from '../../../src/netlink/error.ts';

describe('errnoName', () => {
  test.each([
    [1, 'EPERM'],
    [2, 'ENOENT'],
    [11, 'EAGAIN'],
    [17, 'EEXIST'],
    [19, 'ENODEV'],
    [74, 'EBADMSG'],
    [95, 'EOPNOTSUPP'],
    [105, 'ENOBUFS'],
    // Of ipset (linux/netfilter/ipset/ip_set.h: IPSET_ERR_PRIVATE + 7).
    [4103, 'ERRNO_4103'],
  ])('%i is %s', (errno, name) => expect(errnoName(errno)).toBe(name));
});

describe('NetlinkError', () => {
  test('the message of a NetlinkError contains only known details', () => {
    const base = { kind: 'kernel', operation: 'IPSET_CMD_ADD', errno: 4103 } as const;
    expect(new NetlinkError(base).message).toBe('IPSET_CMD_ADD: ERRNO_4103');
    expect(new NetlinkError({ ...base, object: 'KUBE-X', errno: 1 }).message).toBe(
      'IPSET_CMD_ADD KUBE-X: operation not permitted (EPERM)',
    );
    expect(new NetlinkError({ ...base, errno: 22, text: 'why' }).message).toBe(
      'IPSET_CMD_ADD: invalid argument (EINVAL): why',
    );
  });

  test('a NetlinkError is an Error with a name, whose outcome is known by default', () => {
    const error = new NetlinkError({ kind: 'system', operation: 'send', errno: 1 });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'NetlinkError', outcomeUnknown: false, object: undefined });
    expect(malformed('lies')).toMatchObject({ kind: 'malformed', text: 'lies', outcomeUnknown: true });
  });
});
