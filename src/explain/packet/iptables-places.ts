import { formatIp, isIp4 } from '../../base/ip.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { Packet } from './packet.ts';
import type { Hook } from './rule-walk.ts';
import { type RulePlaces, firstHook } from './translated-packets.ts';

const FIREWALL = 'KUBE-PROXY-FIREWALL';
const SERVICES = 'KUBE-SERVICES';
const NODE_PORTS = 'KUBE-NODEPORTS';
const EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
const FORWARD = 'KUBE-FORWARD';
const POSTROUTING = 'KUBE-POSTROUTING';

/** The rules of iptables mode by purpose. The chains to which the shared ones lead are named after Services. */
export const IPTABLES_PLACES: RulePlaces = {
  taking: ({ virtualServer, realServers, traits: { kind } }, packet) => {
    const rule = matchOf(virtualServer);
    return realServers.length > 0
      ? { table: 'nat', hook: firstHook(packet), chain: kind === 'nodePort' ? NODE_PORTS : SERVICES, rule }
      : { table: 'filter', hook: filterHook(packet), chain: kind === 'cluster' ? SERVICES : EXTERNAL_SERVICES, rule };
  },
  firewall: (id, packet) => ({
    table: 'filter',
    hook: filterHook(packet),
    chain: FIREWALL,
    rule: `${matchOf(id)} -j DROP`,
  }),
  mark: (packet) => ({ table: 'nat', hook: firstHook(packet), chain: 'KUBE-MARK-MASQ', rule: '-j MARK' }),
  masquerade: { table: 'nat', hook: 'POSTROUTING', chain: POSTROUTING, rule: '-j MASQUERADE' },
  accept: { table: 'filter', hook: 'FORWARD', chain: FORWARD, rule: '-m mark -j ACCEPT' },
  masqueradesOwn: true,
  ours: new Set([
    ...[FIREWALL, FORWARD, SERVICES, NODE_PORTS, EXTERNAL_SERVICES].map((chain) => `filter ${chain}`),
    ...[SERVICES, POSTROUTING].map((chain) => `nat ${chain}`),
  ]),
};

function matchOf({ address, protocol, port }: VirtualServerId): string {
  return `-d ${formatIp(address)}/${isIp4(address) ? 32 : 128} -p ${protocol.toLowerCase()} --dport ${port}`;
}

/** The hook in which table filter sees a packet that is not translated. */
function filterHook({ sourceLocal, destinationLocal }: Packet): Hook {
  if (sourceLocal) return 'OUTPUT';
  return destinationLocal ? 'INPUT' : 'FORWARD';
}
