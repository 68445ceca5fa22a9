import { errnoName } from '../netlink/error.ts';
import { ipsetErrorName } from '../netlink/family/ipset/error-name.ts';
import type { IpSetType } from '../state/ip-set.ts';

/** What ipset's own errors mean to the person who reads the log. */
const IPSET_TEXTS = new Map([
  ['IPSET_ERR_FIND_TYPE', 'the kernel has no such set type: a module ip_set_* is missing'],
  ['IPSET_ERR_MAX_SETS', 'no more sets can be created'],
  ['IPSET_ERR_BUSY', 'the set is in use by a rule of iptables or another set'],
  ['IPSET_ERR_TYPE_MISMATCH', 'the two sets have different types'],
  ['IPSET_ERR_HASH_FULL', 'the set is full'],
]);

// Node makes its table anew at each look: too slow when a kernel without memory refuses ten thousand objects.
const NAMES = new Map<number, string>();

/**
 * The symbolic name of a positive errno ("ENOENT", "IPSET_ERR_HASH_FULL"). ipset's own numbers are from 4096 on; from 4352 on
 * their meaning depends on the type of the set.
 */
export function codeOf(errno: number, type: IpSetType = 'hash:ip'): string {
  const ownName = ipsetErrorName(errno, type);
  if (ownName !== undefined) return ownName;
  let name = NAMES.get(errno);
  if (name === undefined) NAMES.set(errno, (name = errnoName(errno)));
  return name;
}

/** Our own words for a code whose name says too little, else "". */
export function textOf(code: string): string {
  return IPSET_TEXTS.get(code) ?? '';
}
