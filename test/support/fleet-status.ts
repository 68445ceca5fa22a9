import type { StatusReply } from '../../src/explain/replies.ts';

const NONE = { count: 0, first: [] };

/** The status of a daemon that is as wanted, with some fields replaced. */
export function statusOf(node: string, changes: Partial<StatusReply> = {}): StatusReply {
  const synced = { endedAt: '2026-11-27T04:00:00.000Z', seconds: 0.01, ok: true };
  return {
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Status',
    node,
    ok: true,
    verdict: `kube-ipvs-proxy serves 3 Services on node ${node}`,
    version: '0.2.0',
    commit: '0123456789abcdef',
    startedAt: '2026-11-27T03:00:00.000Z',
    uptimeSeconds: 3610,
    mode: 'ipvs',
    families: ['IPv4'],
    iptables: 'nft',
    scheduler: 'lc',
    configuration: 'aaaaaaaaaaaa',
    source: 'https://10.0.0.1:6443',
    apiServers: [],
    watches: { services: 'watching', endpointslices: 'watching' },
    watchesSince: { services: '2026-11-27T03:00:00.000Z', endpointslices: '2026-11-27T03:00:00.000Z' },
    syncs: { running: false, first: { ...synced, endedAt: '2026-11-27T03:00:01.000Z' }, full: synced },
    objects: { services: 3, endpointSlices: 3, virtualServers: 3, realServers: 6, addresses: 3, setEntries: 9 },
    sets: [],
    refused: NONE,
    conflicts: NONE,
    warnings: NONE,
    draining: NONE,
    repairs: NONE,
    settings: [],
    notes: [],
    leftOfOtherModes: [],
    health: { healthy: true, problems: [] },
    ...changes,
  };
}
