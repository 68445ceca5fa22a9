import { errnoName } from '../netlink/error.ts';
import { ipsetErrorName } from '../netlink/family/ipset/error-name.ts';
import type { IpSetType } from '../state/ip-set.ts';

/** Descriptions of ipset's own errors, for the log. */
const IPSET_TEXTS = new Map([
  ['IPSET_ERR_FIND_TYPE', 'the kernel does not support this set type: a module ip_set_* is missing'],
  ['IPSET_ERR_MAX_SETS', 'the maximum number of sets is reached'],
  ['IPSET_ERR_BUSY', 'the set is in use by a rule of iptables or another set'],
  ['IPSET_ERR_TYPE_MISMATCH', 'the two sets have different types'],
  ['IPSET_ERR_HASH_FULL', 'the set is full'],
]);

// Cached, because Node rebuilds its table on each call: too slow if the kernel refuses ten thousand objects.
const NAMES = new Map<number, string>();

/**
 * Returns the symbolic name of a positive errno ("ENOENT", "IPSET_ERR_HASH_FULL"). ipset's own errors start at 4096;
 * from 4352 on, their meaning depends on the type of the set.
 */
export function codeOf(errno: number, type: IpSetType = 'hash:ip'): string {
  const ownName = ipsetErrorName(errno, type);
  if (ownName !== undefined) return ownName;
  let name = NAMES.get(errno);
  if (name === undefined) NAMES.set(errno, (name = errnoName(errno)));
  return name;
}

/** Returns a description if the name of the code does not explain the error, else "". */
export function textOf(code: string): string {
  return IPSET_TEXTS.get(code) ?? '';
}
