/** Protocols of netlink sockets. linux/netlink.h. */
export const NETLINK_ROUTE = 0;
export const NETLINK_SOCK_DIAG = 4;
export const NETLINK_NETFILTER = 12;
export const NETLINK_GENERIC = 16;
