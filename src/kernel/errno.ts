import { constants } from 'node:os';

// Some numbers have two names (EAGAIN and EWOULDBLOCK): the first one listed stays.
const NAMES = new Map<number, string>();
for (const [name, value] of Object.entries(constants.errno)) if (!NAMES.has(value)) NAMES.set(value, name);

/** Errors of ipset are private numbers from 4096 on, and from 4352 on their meaning depends on the set's type. */
const IPSET_NAMES = new Map<number, string>([
  [4097, 'IPSET_ERR_PROTOCOL'],
  [4098, 'IPSET_ERR_FIND_TYPE'],
  [4099, 'IPSET_ERR_MAX_SETS'],
  [4100, 'IPSET_ERR_BUSY'],
  [4101, 'IPSET_ERR_EXIST_SETNAME2'],
  [4102, 'IPSET_ERR_TYPE_MISMATCH'],
  [4103, 'IPSET_ERR_EXIST'],
  [4104, 'IPSET_ERR_INVALID_CIDR'],
  [4105, 'IPSET_ERR_INVALID_NETMASK'],
  [4106, 'IPSET_ERR_INVALID_FAMILY'],
  [4107, 'IPSET_ERR_TIMEOUT'],
  [4108, 'IPSET_ERR_REFERENCED'],
  [4109, 'IPSET_ERR_IPADDR_IPV4'],
  [4110, 'IPSET_ERR_IPADDR_IPV6'],
  [4352, 'IPSET_ERR_HASH_FULL'],
  [4353, 'IPSET_ERR_HASH_ELEM'],
  [4354, 'IPSET_ERR_INVALID_PROTO'],
  [4355, 'IPSET_ERR_MISSING_PROTO'],
]);

/** What the words of linux/netfilter/ipset/ip_set.h mean to the person who reads the log. */
const IPSET_TEXTS = new Map<number, string>([
  [4098, 'the kernel has no such set type: a module ip_set_* is missing'],
  [4099, 'no more sets can be created'],
  [4100, 'the set is in use by a rule of iptables or another set'],
  [4101, 'the set to swap with does not exist'],
  [4102, 'the two sets have different types'],
  [4352, 'the set is full'],
]);

/** linux/netfilter/ipset/ip_set.h: IPSET_ERR_*, as positive numbers. */
export const IPSET_ERR_PROTOCOL = 4097;
export const IPSET_ERR_BUSY = 4100;
export const IPSET_ERR_EXIST_SETNAME2 = 4101;
/** linux/netfilter/ipset/ip_set_hash.h: the first number of those that belong to a type. */
export const IPSET_ERR_HASH_FULL = 4352;

/** The symbolic name of a positive errno ("ENOENT", "IPSET_ERR_HASH_FULL"); "ERRNO_n" where it has none. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? IPSET_NAMES.get(errno) ?? `ERRNO_${errno}`;
}

/** Our own words for an errno whose name says too little, else "". */
export function errnoText(errno: number): string {
  return IPSET_TEXTS.get(errno) ?? '';
}
