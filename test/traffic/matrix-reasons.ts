import type { Reason } from './matrix-differences.ts';
import type { Source } from './matrix-table.ts';

const PODS: readonly Source[] = ['pod-0-1', 'pod-0-0', 'pod-1-1'];
/** Those whose connections to a ClusterIP node-0 takes, which has no endpoint if the only one is on node-1. */
const CLIENTS_OF_NODE_0: readonly Source[] = ['pod-0-1', 'pod-0-0', 'node-0', 'client-0'];

/** Why kube-proxy shows something else than ours. test/unit/traffic/matrix.test.ts checks that each difference has one reason. */
export const REASONS: readonly Reason[] = [
  {
    modes: ['ipvs'],
    services: ['external-local', 'external-local-remote', 'both-local-remote'],
    ways: [
      [
        ['node-0', 'node-1'],
        ['external IP', 'LB VIP'],
      ],
    ],
    why: `A node's own connection to an external address of a Service with \`externalTrafficPolicy: Local\`. The address is bound
      to \`kube-ipvs0\`, so the connection's source is the same address. kube-proxy does not masquerade the connection: an
      endpoint on the same node sees the service address, and the reply of one on another node does not return.
      kube-ipvs-proxy masquerades it.`,
    item: "the node's own connections whose source is a service address",
  },
  {
    modes: ['nftables', 'iptables'],
    services: ['external-local'],
    ways: [
      [PODS, ['NodePort node-0', 'NodePort node-1', 'external IP', 'LB VIP']],
      [['node-0'], ['NodePort node-0', 'external IP', 'LB VIP']],
      [['node-1'], ['NodePort node-1', 'external IP', 'LB VIP']],
    ],
    why: `With kube-proxy, \`externalTrafficPolicy: Local\` is for clients outside of the cluster: a Pod, and the node that takes the
      connection, get the endpoints of all nodes. Nothing masquerades a Pod's connection to the node port of another node: if
      the chosen endpoint is not on that node, its reply does not return through it, and half of the connections fail. (In iptables
      mode, those of an endpoint to itself succeed, because each node masquerades them.)`,
    item: 'policy Local in nftables and iptables mode',
  },
  {
    modes: ['nftables', 'iptables'],
    services: ['internal-local-remote'],
    ways: [[CLIENTS_OF_NODE_0, ['ClusterIP']]],
    why: `\`internalTrafficPolicy: Local\` without an endpoint on the node: kube-proxy drops the packets, kube-ipvs-proxy rejects
      them, as both do in ipvs mode. (The node's own datagrams are refused at once, because dropping them in OUTPUT is an
      error for the sender.)`,
    item: 'policy Local in nftables and iptables mode',
  },
  {
    modes: ['nftables', 'iptables'],
    services: ['both-local-remote'],
    ways: [[CLIENTS_OF_NODE_0, ['ClusterIP']]],
    why: `The same for a Service that is reachable from outside: in ipvs mode, both fall back to the endpoints of the cluster,
      and kube-ipvs-proxy does so in every mode.`,
    item: 'policy Local in nftables and iptables mode',
  },
  {
    modes: ['iptables'],
    services: ['no-endpoint'],
    ways: [
      [
        ['node-0', 'node-1'],
        ['external IP', 'LB VIP'],
      ],
    ],
    why: `A node's own connection to an external address of a Service without endpoints: kube-proxy has its rejecting rules in
      INPUT and FORWARD, so the connection leaves the node as its routes say, here to a host that has no such address.
      kube-ipvs-proxy rejects it.`,
    item: 'iptables mode',
  },
];
