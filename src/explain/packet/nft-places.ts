import { formatIp } from '../../base/ip.ts';
import { nftServicePort } from '../nft-text.ts';
import { type RulePlace, type RulePlaces, firstHook } from './translated-packets.ts';

const SERVICE = 'daddr . meta l4proto . th dport';

/** The rules of nftables mode by purpose. Each map contains the service ports to which its rule applies. */
export const NFT_PLACES: RulePlaces = {
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
  table: RulePlace['table'],
  map: string,
  id: Parameters<RulePlaces['firewall']>[0],
  packet: Parameters<RulePlaces['firewall']>[1],
): RulePlace {
  const entry = `${map} { ${nftServicePort(id)} }`;
  return { table, hook: firstHook(packet), chain, rule: `${SERVICE} vmap @${map}`, entry };
}
