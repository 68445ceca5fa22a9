import type { ProxyMode } from '../../base/proxy-mode.ts';
import { IPTABLES_PLACES } from './iptables-places.ts';
import { ipvsPackets } from './ipvs-packets.ts';
import { NFT_PLACES } from './nft-places.ts';
import { type PacketPlane, type PlaneFacts, inTables } from './packet-plane.ts';
import { translatedPackets } from './translated-packets.ts';

const PLANES: Readonly<Record<ProxyMode, (facts: PlaneFacts) => PacketPlane>> = {
  ipvs: ipvsPackets,
  nftables: (facts) => translatedPackets(facts, NFT_PLACES),
  iptables: (facts) => translatedPackets(facts, IPTABLES_PLACES),
  // The endpoint's client is the engine, a program of this node.
  userspace: (facts) => forwardedPackets(translatedPackets(facts, NFT_PLACES)),
};

function forwardedPackets(plane: PacketPlane): PacketPlane {
  return {
    ...plane,
    forwards: true,
    after: () => ({ matched: [], decision: 'MASQUERADE' }),
    others: (packet) => ({
      ...plane.others(packet),
      toEndpoint: () => [...inTables(['filter', 'security'], 'OUTPUT'), ...inTables(['mangle'], 'POSTROUTING')],
    }),
  };
}

/** Returns what a mode does to a packet. */
export function packetPlane(mode: ProxyMode, facts: PlaneFacts): PacketPlane {
  return PLANES[mode](facts);
}
