/** Flags of a message header. linux/netlink.h: NLM_F_*. Bits from 0x100 on mean one thing for GET, another for NEW. */
export const NLM_F_REQUEST = 0x01;
export const NLM_F_ACK = 0x04;
/** The state changed during a dump: its result may be inconsistent. */
export const NLM_F_DUMP_INTR = 0x10;
/** For GET: NLM_F_ROOT | NLM_F_MATCH. */
export const NLM_F_DUMP = 0x300;
/** For NEW: replace an existing object. */
export const NLM_F_REPLACE = 0x100;
/** For NEW: fail with EEXIST if the object exists. */
export const NLM_F_EXCL = 0x200;
/** For NEW: create the object if it does not exist. */
export const NLM_F_CREATE = 0x400;
/** For NEW: add the object at the end of a list. */
export const NLM_F_APPEND = 0x800;

/** Flags in the type of an attribute. linux/netlink.h: NLA_F_*. */
export const NLA_F_NESTED = 0x8000;
export const NLA_F_NET_BYTEORDER = 0x4000;
/** linux/netlink.h: NLA_TYPE_MASK. */
export const NLA_TYPE_MASK = 0x3fff;

/** Sizes of struct nlmsghdr and struct nlattr (linux/netlink.h), in bytes. */
export const MESSAGE_HEADER_SIZE = 16;
export const ATTRIBUTE_HEADER_SIZE = 4;

/** Messages and attributes start at multiples of 4 bytes. linux/netlink.h: NLMSG_ALIGN, NLA_ALIGN. */
export function align4(length: number): number {
  return (length + 3) & ~3;
}
