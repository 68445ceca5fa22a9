import { type IpAddress, parseIp } from '../../src/base/ip.ts';
import { runCommand } from '../../test/bed/command.ts';
import type { BenchNode } from './bench-node.ts';
import { type ClusterShape, clusterIp, podIps } from './large-cluster.ts';

const SOURCES = ['10.200.2.1', '10.200.2.2'];
const MOST_FLOWS = 400_000;
const LASTING_S = 3_600;

/** UDP flows from the node to Service 0 of a cluster, whose endpoints nobody is. */
export class UdpFlows {
  readonly #node: BenchNode;

  private constructor(node: BenchNode) {
    this.#node = node;
  }

  static async prepare(node: BenchNode): Promise<UdpFlows> {
    for (const source of SOURCES) await node.run(['ip', 'addr', 'add', `${source}/32`, 'dev', 'eth0']);
    // Endpoints, and in nftables mode addresses of Services.
    await node.run(['ip', 'route', 'add', 'default', 'dev', 'eth0']);
    // A limit of all namespaces.
    await runCommand(['sysctl', '-qw', `net.netfilter.nf_conntrack_max=${MOST_FLOWS}`]);
    const settings = [`net.netfilter.nf_conntrack_udp_timeout=${LASTING_S}`];
    if (node.mode === 'ipvs') settings.push('net.ipv4.vs.conntrack=1');
    await node.run(['sysctl', '-qw', ...settings]);
    return new UdpFlows(node);
  }

  /** These are all flows of the node then: one datagram for each. */
  async send(count: number): Promise<void> {
    await this.#node.run(['conntrack', '-F']);
    const script = [process.execPath, 'lab/bench/send-datagrams.ts', String(count), clusterIp(0, 4), '80', ...SOURCES];
    await this.#node.run(script);
  }

  /** How many flows each endpoint has. */
  async counts(): Promise<ReadonlyMap<IpAddress, number>> {
    const counts = new Map<IpAddress, number>();
    for (const { replySource } of await this.#node.kernel.getUdpFlows(4)) {
      counts.set(replySource, (counts.get(replySource) ?? 0) + 1);
    }
    return counts;
  }

  lastEndpoint({ endpoints }: ClusterShape): IpAddress {
    const ip = parseIp(podIps(0, endpoints, 4).at(-1) ?? '');
    if (ip === undefined) throw new Error('no endpoints');
    return ip;
  }
}
