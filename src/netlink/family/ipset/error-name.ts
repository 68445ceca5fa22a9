/** linux/netfilter/ipset/ip_set.h: enum ipset_errno. ipset has error numbers of its own in addition to errno. */
const COMMON: ReadonlyMap<number, string> = new Map([
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
  [4111, 'IPSET_ERR_COUNTER'],
  [4112, 'IPSET_ERR_COMMENT'],
  [4113, 'IPSET_ERR_INVALID_MARKMASK'],
  [4114, 'IPSET_ERR_SKBINFO'],
]);

/** linux/netfilter/ipset/ip_set_hash.h. */
const HASH: ReadonlyMap<number, string> = new Map([
  [4352, 'IPSET_ERR_HASH_FULL'],
  [4353, 'IPSET_ERR_HASH_ELEM'],
  [4354, 'IPSET_ERR_INVALID_PROTO'],
  [4355, 'IPSET_ERR_MISSING_PROTO'],
  [4356, 'IPSET_ERR_HASH_RANGE_UNSUPPORTED'],
  [4357, 'IPSET_ERR_HASH_RANGE'],
]);

/** linux/netfilter/ipset/ip_set_bitmap.h. */
const BITMAP: ReadonlyMap<number, string> = new Map([
  [4352, 'IPSET_ERR_BITMAP_RANGE'],
  [4353, 'IPSET_ERR_BITMAP_RANGE_SIZE'],
]);

/** Returns the name of an ipset error number (positive); undefined for an errno. `type` is the type of the set. */
export function ipsetErrorName(errno: number, type: string): string | undefined {
  return COMMON.get(errno) ?? (type.startsWith('bitmap:') ? BITMAP : HASH).get(errno);
}
