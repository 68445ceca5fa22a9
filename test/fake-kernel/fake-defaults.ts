/** The schedulers of a newly booted kernel. */
export const SCHEDULERS = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sh', 'dh', 'mh', 'sed', 'nq', 'fo', 'ovf'];

/** Values under /proc/sys. */
export const SYSCTLS: Readonly<Record<string, string>> = {
  'net/ipv4/vs/conntrack': '0',
  'net/ipv4/vs/conn_reuse_mode': '1',
  'net/ipv4/vs/expire_nodest_conn': '0',
  'net/ipv4/vs/expire_quiescent_template': '0',
  'net/ipv4/vs/run_estimation': '1',
  'net/ipv4/ip_forward': '0',
  'net/ipv4/tcp_keepalive_time': '7200',
  'net/ipv4/conf/all/arp_ignore': '0',
  'net/ipv4/conf/all/arp_announce': '0',
  'net/ipv4/conf/all/route_localnet': '0',
  'net/netfilter/nf_conntrack_max': '65536',
  'net/netfilter/nf_conntrack_tcp_timeout_established': '432000',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait': '60',
  'net/netfilter/nf_conntrack_tcp_be_liberal': '0',
  'net/netfilter/nf_conntrack_udp_timeout': '30',
  'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
};
