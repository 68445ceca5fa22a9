import {
  allPods,
  clientAddress,
  clusterAddresses,
  type DualStack,
  externalAddresses,
  lanAddress,
  nodeAddress,
  nodeNetwork,
  podAddress,
  podGateway,
  podNetwork,
} from './address-plan.ts';
import { runCommand } from './command.ts';
import { Namespace } from './namespace.ts';

export interface BedShape {
  /** Default 1. */
  readonly nodes?: number;
  /** Initial pods per node; default 0. `addPod` adds more. */
  readonly podsPerNode?: number;
  /** Hosts on the node network that are not nodes, with routes to service addresses through node 0; default 0. */
  readonly clients?: number;
}

/** The bridge that connects the pods of a node. */
export const POD_BRIDGE = 'cni0';
const POD_BRIDGE_MAC = '02:00:00:00:00:01';
/** The link of nodes and clients to the node network, and of pods to their node. */
export const UPLINK = 'eth0';

const everywhere: DualStack = { v4: '0.0.0.0/0', v6: '::/0' };

// As on a Kubernetes node before a proxy starts: it forwards, and iptables and IPVS see bridged packets. Otherwise a
// reply between two pods of one node would bypass the reverse translation.
const NODE_SYSCTLS = {
  'net.ipv4.ip_forward': 1,
  'net.ipv6.conf.all.forwarding': 1,
  'net.bridge.bridge-nf-call-iptables': 1,
  'net.bridge.bridge-nf-call-ip6tables': 1,
  'net.ipv4.conf.all.rp_filter': 0,
  'net.ipv4.conf.default.rp_filter': 0,
  // Every refused probe must be told so, however many were before it: by default, a client gets one ICMP error a second.
  'net.ipv4.icmp_ratelimit': 0,
  'net.ipv6.icmp.ratelimit': 0,
};

const NO_REDIRECTS = {
  'net.ipv4.conf.all.accept_redirects': 0,
  [`net.ipv4.conf.${UPLINK}.accept_redirects`]: 0,
  [`net.ipv6.conf.${UPLINK}.accept_redirects`]: 0,
};

let bedCount = 0;

/** A small dual-stack cluster of network namespaces on one switch; see address-plan.ts for its addresses. */
export class Bed implements AsyncDisposable {
  readonly #prefix: string;
  readonly #lan: Namespace;
  readonly #nodes: Namespace[] = [];
  readonly #pods: Namespace[][] = [];
  readonly #clients: Namespace[] = [];

  private constructor() {
    bedCount += 1;
    this.#prefix = `bed${process.pid}-${bedCount}`;
    this.#lan = this.#namespace('lan', lanAddress);
  }

  static async create(shape: BedShape = {}): Promise<Bed> {
    const { nodes = 1, podsPerNode = 0, clients = 0 } = shape;
    const bed = new Bed();
    try {
      await bed.#createLan();
      for (let node = 0; node < nodes; node++) {
        await bed.addNode();
        for (let pod = 0; pod < podsPerNode; pod++) {
          await bed.addPod(node);
        }
      }
      for (let client = 0; client < clients; client++) {
        await bed.addClient();
      }
    } catch (error) {
      await bed[Symbol.asyncDispose]();
      throw error;
    }
    return bed;
  }

  node(index: number): Namespace {
    return existing(this.#nodes[index], `node ${index}`);
  }

  pod(node: number, index: number): Namespace {
    return existing(this.#pods[node]?.[index], `pod ${index} of node ${node}`);
  }

  client(index: number): Namespace {
    return existing(this.#clients[index], `client ${index}`);
  }

  /** Adds a node with an uplink and an empty pod bridge, and the pod routes between it and the existing nodes. */
  async addNode(): Promise<Namespace> {
    const index = this.#nodes.length;
    const addresses = nodeAddress(index);
    const node = this.#namespace(`node-${index}`, addresses);
    await this.#connectToLan(node, `n${index}`);
    await node.sysctl(NODE_SYSCTLS);
    const gateway = podGateway(index);
    await node.ip([
      ...uplinkLines(addresses, 24),
      // Without an address of its own, it has the lowest one of its ports: another one with another pod. The pods that know
      // it by the former one would lose it for seconds.
      `link add ${POD_BRIDGE} address ${POD_BRIDGE_MAC} type bridge forward_delay 0`,
      `addr add ${gateway.v4}/24 dev ${POD_BRIDGE}`,
      `addr add ${gateway.v6}/64 dev ${POD_BRIDGE} nodad`,
      `link set ${POD_BRIDGE} up`,
      ...routeLines(everywhere, lanAddress),
      ...this.#nodes.flatMap((_, other) => routeLines(podNetwork(other), nodeAddress(other))),
    ]);
    await Promise.all(this.#nodes.map((other) => other.ip(routeLines(podNetwork(index), addresses))));
    this.#nodes.push(node);
    this.#pods.push([]);
    return node;
  }

  /** Adds a pod to the bridge of a node, which is its default gateway. */
  async addPod(nodeIndex: number): Promise<Namespace> {
    const node = this.node(nodeIndex);
    const pods = existing(this.#pods[nodeIndex], `node ${nodeIndex}`);
    const index = pods.length;
    const addresses = podAddress(nodeIndex, index);
    const pod = this.#namespace(`pod-${nodeIndex}-${index}`, addresses);
    const port = `veth${index}`;
    pods.push(pod);
    await runIp([
      `netns add ${pod.netns}`,
      `link add ${UPLINK} netns ${pod.netns} type veth peer name ${port} netns ${node.netns}`,
    ]);
    // Hairpin: a packet from a pod to its own service may return through the bridge port it came from.
    await node.ip([`link set ${port} master ${POD_BRIDGE} up`, `link set ${port} type bridge_slave hairpin on`]);
    await pod.ip([...uplinkLines(addresses, 24), ...routeLines(everywhere, podGateway(nodeIndex))]);
    return pod;
  }

  /** Adds a host on the node network that reaches service addresses and pods through node `via`. */
  async addClient(via = 0): Promise<Namespace> {
    const index = this.#clients.length;
    const addresses = clientAddress(index);
    const client = this.#namespace(`client-${index}`, addresses);
    this.#clients.push(client);
    await this.#connectToLan(client, `c${index}`);
    // A node without the service address sends the packet back to the switch, and an ICMP redirect to the client.
    await client.sysctl(NO_REDIRECTS);
    await client.ip([
      ...uplinkLines(addresses, 24),
      ...[clusterAddresses, externalAddresses, allPods].flatMap((range) => routeLines(range, nodeAddress(via))),
    ]);
    return client;
  }

  /** Ends every process of the bed and removes its namespaces. */
  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#pods.flat(), ...this.#clients, ...this.#nodes, this.#lan];
    await Promise.all(all.map((namespace) => namespace[Symbol.asyncDispose]()));
    const known = new Set(
      (await runCommand(['ip', 'netns', 'list'])).stdout.split('\n').map((line) => line.split(' ')[0]),
    );
    await runIp(
      all.filter((namespace) => known.has(namespace.netns)).map((namespace) => `netns del ${namespace.netns}`),
    );
  }

  async #createLan(): Promise<void> {
    await runIp([`netns add ${this.#lan.netns}`]);
    // A switch, not a node: bridged packets bypass the packet filters.
    await this.#lan.sysctl({ 'net.bridge.bridge-nf-call-iptables': 0, 'net.bridge.bridge-nf-call-ip6tables': 0 });
    const [length4, length6] = [nodeNetwork.v4, nodeNetwork.v6].map((cidr) => cidr.split('/')[1]);
    await this.#lan.ip([
      'link add br0 type bridge forward_delay 0',
      `addr add ${lanAddress.v4}/${length4} dev br0`,
      `addr add ${lanAddress.v6}/${length6} dev br0 nodad`,
      'link set br0 up',
      'link set lo up',
      // Without a route, an IPv6 host answers what is not for it with an ICMP error, of which TCP tells the client by chance.
      'route add blackhole ::/0',
    ]);
  }

  async #connectToLan(namespace: Namespace, port: string): Promise<void> {
    await runIp([
      `netns add ${namespace.netns}`,
      `link add ${UPLINK} netns ${namespace.netns} type veth peer name ${port} netns ${this.#lan.netns}`,
    ]);
    await this.#lan.ip([`link set ${port} master br0 up`]);
  }

  #namespace(name: string, addresses: DualStack): Namespace {
    return new Namespace(name, `${this.#prefix}-${name}`, addresses);
  }
}

function uplinkLines(addresses: DualStack, length4: number): readonly string[] {
  return [
    'link set lo up',
    `addr add ${addresses.v4}/${length4} dev ${UPLINK}`,
    `addr add ${addresses.v6}/64 dev ${UPLINK} nodad`,
    `link set ${UPLINK} up`,
  ];
}

function routeLines(range: DualStack, via: DualStack): readonly string[] {
  return [`route add ${range.v4} via ${via.v4}`, `route add ${range.v6} via ${via.v6}`];
}

async function runIp(lines: readonly string[]): Promise<void> {
  if (lines.length > 0) {
    await runCommand(['ip', '-batch', '-'], { input: `${lines.join('\n')}\n` });
  }
}

function existing<T>(value: T | undefined, what: string): T {
  if (value === undefined) {
    throw new RangeError(`the bed has no ${what}`);
  }
  return value;
}
