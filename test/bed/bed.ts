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
  /** Pods made on each node; default 0, more with `addPod`. */
  readonly podsPerNode?: number;
  /** Hosts on the node network that are no nodes, with routes to service addresses through node 0; default 0. */
  readonly clients?: number;
}

/** The bridge of a node that its pods hang on. */
export const POD_BRIDGE = 'cni0';
/** The link of nodes and clients to the node network, and of pods to their node. */
export const UPLINK = 'eth0';

const everywhere: DualStack = { v4: '0.0.0.0/0', v6: '::/0' };

// As a Kubernetes node is set up before a proxy starts: it forwards, and iptables and IPVS see bridged packets, without
// which a pod's reply to its neighbour would go past the translation back.
const NODE_SYSCTLS = {
  'net.ipv4.ip_forward': 1,
  'net.ipv6.conf.all.forwarding': 1,
  'net.bridge.bridge-nf-call-iptables': 1,
  'net.bridge.bridge-nf-call-ip6tables': 1,
  'net.ipv4.conf.all.rp_filter': 0,
  'net.ipv4.conf.default.rp_filter': 0,
};

const NO_REDIRECTS = {
  'net.ipv4.conf.all.accept_redirects': 0,
  [`net.ipv4.conf.${UPLINK}.accept_redirects`]: 0,
  [`net.ipv6.conf.${UPLINK}.accept_redirects`]: 0,
};

let bedCount = 0;

/** A little cluster of network namespaces on one switch, dual-stack; see address-plan.ts for who has which address. */
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

  /** A node with an uplink and an empty pod bridge; it and the nodes before it learn each other's pod networks. */
  async addNode(): Promise<Namespace> {
    const index = this.#nodes.length;
    const addresses = nodeAddress(index);
    const node = this.#namespace(`node-${index}`, addresses);
    await this.#connectToLan(node, `n${index}`);
    await node.sysctl(NODE_SYSCTLS);
    const gateway = podGateway(index);
    await node.ip([
      ...uplinkLines(addresses, 24),
      `link add ${POD_BRIDGE} type bridge forward_delay 0`,
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

  /** A pod on the bridge of a node, which is its default gateway. */
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
    // Hairpin: what a pod sends to its own service may come back to it through the port it left by.
    await node.ip([`link set ${port} master ${POD_BRIDGE} up`, `link set ${port} type bridge_slave hairpin on`]);
    await pod.ip([...uplinkLines(addresses, 24), ...routeLines(everywhere, podGateway(nodeIndex))]);
    return pod;
  }

  /** A host on the node network that reaches service addresses and pods through node `via`. */
  async addClient(via = 0): Promise<Namespace> {
    const index = this.#clients.length;
    const addresses = clientAddress(index);
    const client = this.#namespace(`client-${index}`, addresses);
    this.#clients.push(client);
    await this.#connectToLan(client, `c${index}`);
    // A node that no longer has a service address sends what comes for it back to the switch, and would have the client go there.
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
    // A switch, not a node: no packet filter sees what passes here.
    await this.#lan.sysctl({ 'net.bridge.bridge-nf-call-iptables': 0, 'net.bridge.bridge-nf-call-ip6tables': 0 });
    const [length4, length6] = [nodeNetwork.v4, nodeNetwork.v6].map((cidr) => cidr.split('/')[1]);
    await this.#lan.ip([
      'link add br0 type bridge forward_delay 0',
      `addr add ${lanAddress.v4}/${length4} dev br0`,
      `addr add ${lanAddress.v6}/${length6} dev br0 nodad`,
      'link set br0 up',
      'link set lo up',
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
