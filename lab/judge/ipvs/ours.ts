import { formatIp } from '../../../src/base/ip.ts';
import type { Flow } from '../../../src/kernel/kernel.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { formatVirtualServer, virtualServerKey } from '../../../src/state/virtual-server.ts';
import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import { address, portOf } from '../../../test/support/state.ts';
import type { Case, CaseFlow, Step } from '../case/case.ts';
import { OurRun, nodeAddressesOf } from '../our-run.ts';
import type { IpvsState, VirtualServerState } from './state.ts';

/** Plays a case on our side, on the kernel in memory; returns the state after each step. */
export async function playOurs(given: Case): Promise<IpvsState[]> {
  const run = await IpvsRun.start(given);
  const states: IpvsState[] = [];
  for (const step of given.steps) states.push(await run.take(step));
  return states;
}

class IpvsRun {
  readonly #kernel: FakeKernel;
  readonly #run: OurRun;

  private constructor(kernel: FakeKernel, run: OurRun) {
    this.#kernel = kernel;
    this.#run = run;
  }

  static async start(given: Case): Promise<IpvsRun> {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.setNodeAddresses(nodeAddressesOf(given));
    return new IpvsRun(kernel, new OurRun(given, kernel));
  }

  async take(step: Step): Promise<IpvsState> {
    const flows = new Map(step.flows.map((flow) => [flowOf(flow), flow]));
    this.#kernel.setUdpFlows([...flows.keys()]);
    await this.#run.take(step);
    const left = new Set([...(await this.#kernel.getUdpFlows(4)), ...(await this.#kernel.getUdpFlows(6))]);
    return await this.#state([...flows].filter(([flow]) => !left.has(flow)).map(([, flow]) => flow));
  }

  async #state(deletedFlows: readonly CaseFlow[]): Promise<IpvsState> {
    const servers = await this.#kernel.getVirtualServers();
    const realServers = await this.#kernel.getRealServers(servers);
    const virtualServers: Record<string, VirtualServerState> = {};
    for (const server of servers) {
      const { scheduler, flags, timeout } = server;
      const found = realServers.get(virtualServerKey(server)) ?? [];
      const weights = Object.fromEntries(found.map((each) => [formatRealServer(each), each.weight]));
      virtualServers[formatVirtualServer(server)] = { scheduler, flags, timeout, realServers: weights };
    }
    const sets = (await this.#kernel.getSets()).map(({ name, entries }) => [name, entries.map(formatIpSetEntry)]);
    const addresses = (await this.#kernel.getBoundAddresses()).map((bound) => formatIp(bound.address));
    const checks = Array.from(this.#run.plan.healthChecks, ([name, { port, localEndpoints }]) =>
      Object.entries(localEndpoints).map(([family, count]) => [`IPv${family} ${name}`, { port, count }]),
    );
    const healthChecks = Object.fromEntries(checks.flat()) as IpvsState['healthChecks'];
    return {
      virtualServers,
      sets: Object.fromEntries(sets) as IpvsState['sets'],
      addresses,
      healthChecks,
      deletedFlows,
    };
  }
}

function flowOf(flow: CaseFlow): Flow {
  return {
    family: flow.destination.includes(':') ? 6 : 4,
    protocol: 'UDP',
    source: address(flow.source),
    sourcePort: portOf(flow.sourcePort),
    destination: address(flow.destination),
    destinationPort: portOf(flow.destinationPort),
    replySource: address(flow.replySource),
    replySourcePort: portOf(flow.replySourcePort),
  };
}
