import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { Flow, NodeAddress } from '../../src/kernel/kernel.ts';
import { type Cidr, cidrFamily, formatCidr } from '../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, formatHostPort, formatIp, isIp4 } from '../../src/base/ip.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { RuleJump } from '../../src/state/rules/rule-set.ts';
import { type VirtualServer, VS_PERSISTENT, VS_SCHED_FALLBACK, VS_SCHED_PORT } from '../../src/state/virtual-server.ts';
import type { ContractBed } from './contract-bed.ts';

const SERVICE_OPTION = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

/** The fake, with its tables printed in the manner of the system's tools. */
export class FakeBed implements ContractBed {
  readonly kernel = new FakeKernel();
  #nodeAddresses: NodeAddress[] = [];
  #flows: Flow[] = [];

  async reader(): Promise<FakeKernel> {
    return await Promise.resolve(this.kernel);
  }

  async ipvs(): Promise<string[]> {
    const lines: string[] = [];
    for (const { virtualServer, realServers } of this.kernel.tables.virtualServers.values()) {
      const { address, port, protocol } = virtualServer;
      const id = `${SERVICE_OPTION[protocol]} ${formatHostPort(address, port)}`;
      lines.push(`-A ${id} -s ${virtualServer.scheduler}${formatFlags(virtualServer)}`);
      for (const server of realServers.values()) {
        const method = ['-m', '?', '-i', '-g'][server.forwarding] ?? '?';
        lines.push(`-a ${id} -r ${formatHostPort(server.address, server.port)} ${method} -w ${server.weight}`);
      }
    }
    return await Promise.resolve(lines.sort());
  }

  async sets(): Promise<string[]> {
    const lines = [...this.kernel.tables.sets.values()].flatMap(({ set, entries }) => [
      `create ${set.name} ${set.type}`,
      ...[...entries.values()].map((entry) => `add ${set.name} ${formatIpSetEntry(entry)}`),
    ]);
    return await Promise.resolve(lines.sort());
  }

  async addresses(): Promise<string[] | undefined> {
    if (!this.kernel.tables.device) return undefined;
    const lines = [...this.kernel.tables.bound].map((address) => `${formatIp(address)}/${isIp4(address) ? 32 : 128}`);
    return await Promise.resolve(lines.sort());
  }

  async routes(family: IpFamily): Promise<string[]> {
    const routes = [...this.kernel.tables.routes.values()].filter(({ cidr }) => cidrFamily(cidr) === family);
    return await Promise.resolve(routes.map(({ cidr, ours }) => `${formatCidr(cidr)} ${ours ? 120 : 4}`).sort());
  }

  async bindAsOthers(address: IpAddress): Promise<void> {
    this.kernel.put({ kind: 'bind-address', address });
    this.kernel.tables.otherFlags.add(address);
    await Promise.resolve();
  }

  async deleteRouteTo(address: IpAddress): Promise<void> {
    this.kernel.tables.unrouted.add(address);
    await Promise.resolve();
  }

  async blockRouteTo(address: IpAddress): Promise<void> {
    await this.deleteRouteTo(address);
  }

  async deleteDevice(): Promise<void> {
    this.kernel.deleteDevice();
    await Promise.resolve();
  }

  async addRoute(cidr: Cidr): Promise<void> {
    this.kernel.tables.routes.set(formatCidr(cidr), { cidr, ours: false });
    await Promise.resolve();
  }

  async rules(family: IpFamily): Promise<string[]> {
    const { chains = [], jumps = [] } = this.kernel.rules(family) ?? {};
    const lines = chains.flatMap(({ table, name, rules }) =>
      rules.map((rule) => `${table} -A ${name} ${rule.map(quote).join(' ')}`),
    );
    return await Promise.resolve([...lines, ...jumps.toReversed().map(formatJump)]);
  }

  async flows(family: IpFamily, destinationPort: number): Promise<number> {
    const udp = await this.kernel.getUdpFlows(family);
    const others = this.#flows.filter((flow) => flow.family === family && flow.protocol !== 'UDP');
    return [...udp, ...others].filter((flow) => flow.destinationPort === destinationPort).length;
  }

  async addNodeAddress(address: NodeAddress): Promise<void> {
    this.#nodeAddresses = [...this.#nodeAddresses, address];
    this.kernel.setNodeAddresses(this.#nodeAddresses);
    await Promise.resolve();
  }

  async removeNodeAddress(address: NodeAddress): Promise<void> {
    this.#nodeAddresses = this.#nodeAddresses.filter((each) => each !== address);
    this.kernel.setNodeAddresses(this.#nodeAddresses);
    await Promise.resolve();
  }

  async flushRules(family: IpFamily): Promise<void> {
    this.kernel.flushRules(family);
    await Promise.resolve();
  }

  async addFlow(flow: Flow): Promise<void> {
    this.#flows = [...this.#flows, flow];
    this.kernel.setUdpFlows(this.#flows);
    await Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel.close();
  }
}

function formatFlags({ flags, timeout, scheduler }: VirtualServer): string {
  const names = [
    ...((flags & VS_SCHED_FALLBACK) !== 0 ? [`${scheduler}-fallback`] : []),
    ...((flags & VS_SCHED_PORT) !== 0 ? [`${scheduler}-port`] : []),
  ];
  const persistence = (flags & VS_PERSISTENT) !== 0 ? ` -p ${timeout}` : '';
  return `${persistence}${names.length > 0 ? ` -b ${names.join(',')}` : ''}`;
}

function formatJump({ table, from, to, comment }: RuleJump): string {
  return `${table} -A ${from} -m comment --comment ${quote(comment)} -j ${to}`;
}

function quote(argument: string): string {
  return /^[\w,:/.-]+$/.test(argument) ? argument : `"${argument.replaceAll('"', '\\"')}"`;
}
