import { formatIp } from '../../base/ip.ts';
import { nftElement } from '../nft-command.ts';
import { type Place, type Places, firstHook } from './translated-packets.ts';

const SERVICE = 'daddr . meta l4proto . th dport';

/** Where nftables mode does what: each map has the service ports for which its rule is. */
export const NFT_PLACES: Places = {
  taking: ({ virtualServer, realServers }, packet) =>
    realServers.length === 0
      ? ofMap('service-endpoints-check', 'filter', 'no-endpoint-services', virtualServer, packet)
      : ofMap('services', 'nat', 'service-ips', virtualServer, packet),
  firewall: (id, packet) => ofMap('firewall-check', 'filter', 'firewall-ips', id, packet),
  closed: (address, packet) => ({
    table: 'filter',
    hook: firstHook(packet),
    chain: 'cluster-ips-check',
    rule: 'daddr @cluster-ips goto reject-chain',
    entry: `cluster-ips { ${formatIp(address)} }`,
  }),
  mark: (packet) => ({
    table: 'nat',
    hook: firstHook(packet),
    chain: 'masquerade-check',
    rule: 'goto mark-for-masquerade',
  }),
  masquerade: { table: 'nat', hook: 'POSTROUTING', chain: 'masquerading', rule: 'masquerade' },
  masqueradesOwn: false,
  ours: new Set(),
};

function ofMap(
  chain: string,
  table: Place['table'],
  map: string,
  id: Parameters<Places['firewall']>[0],
  packet: Parameters<Places['firewall']>[1],
): Place {
  const entry = `${map} { ${nftElement({ type: 'hash:ip,port', ...id })} }`;
  return { table, hook: firstHook(packet), chain, rule: `${SERVICE} vmap @${map}`, entry };
}
