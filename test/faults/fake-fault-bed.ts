import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { Flow } from '../../src/kernel/kernel.ts';
import type { IpAddress } from '../../src/base/ip.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import { type IpSetEntry, formatIpSetEntry, ipSetEntryKey } from '../../src/state/ip-set.ts';
import { unreachable } from '../../src/base/unreachable.ts';
import { address, virtualServer } from '../support/state.ts';
import { type Deed, isOp } from './acts.ts';
import { NODE_SETTINGS } from './configs.ts';
import type { FaultBed } from './fault-bed.ts';
import { SETTING_LINES, addressLine, realServerLine, setLine, timeoutLine, virtualServerLine } from './state-lines.ts';

/** Virtual servers of other programs. One uses the port of a NodePort. */
const FOREIGN = [virtualServer('10.99.0.1', 80), virtualServer('10.99.0.2', 30_080)];

/** A fault bed on the in-memory kernel. */
export class FakeFaultBed implements FaultBed {
  readonly kernel = new FakeKernel();
  readonly #nodeAddresses = new Set<IpAddress>(['192.168.9.1', 'fd00:9::1'].map(address));

  constructor() {
    for (const one of FOREIGN) this.kernel.put({ kind: 'add-virtual-server', virtualServer: one });
    this.#showNodeAddresses();
  }

  get nodeAddresses(): readonly IpAddress[] {
    return [...this.#nodeAddresses];
  }

  async act(deeds: readonly Deed[]): Promise<void> {
    for (const deed of deeds) await this.#do(deed);
  }

  async standing(config: PlanConfig): Promise<readonly string[]> {
    await Promise.resolve();
    const rules = config.families.map((family) => `rules ${JSON.stringify(planRules(config, family))}`);
    return [...FOREIGN.map(virtualServerLine), ...rules, ...SETTING_LINES, 'device'];
  }

  async found(): Promise<readonly string[]> {
    await Promise.resolve();
    const { tables } = this.kernel;
    const lines: string[] = tables.device ? ['device'] : [];
    for (const { virtualServer: one, realServers } of tables.virtualServers.values()) {
      lines.push(virtualServerLine(one));
      for (const server of realServers.values()) lines.push(realServerLine(one, server));
    }
    for (const { set, entries } of tables.sets.values()) {
      lines.push(setLine(set));
      for (const entry of entries.values()) lines.push(`add ${set.name} ${formatIpSetEntry(entry)}`);
    }
    for (const bound of await this.kernel.getBoundAddresses()) lines.push(addressLine(bound));
    for (const [key] of NODE_SETTINGS.sysctls) lines.push(`sysctl ${key} ${this.kernel.sysctls.get(key)}`);
    lines.push(timeoutLine(await this.kernel.getIpvsTimeouts()));
    for (const family of [4, 6] as const) lines.push(`rules ${JSON.stringify(this.kernel.rules(family))}`);
    return lines;
  }

  hasEntry(name: string, entry: IpSetEntry): boolean {
    return this.kernel.tables.sets.get(name)?.entries.has(ipSetEntryKey(entry)) === true;
  }

  async #do(deed: Deed): Promise<void> {
    const { tables } = this.kernel;
    if (isOp(deed)) {
      this.kernel.put(deed);
      return;
    }
    switch (deed.kind) {
      case 'delete-device':
        this.kernel.deleteDevice();
        return;
      case 'clear-virtual-servers':
        tables.virtualServers.clear();
        for (const one of FOREIGN) this.kernel.put({ kind: 'add-virtual-server', virtualServer: one });
        return;
      case 'flush-set':
        tables.sets.get(deed.name)?.entries.clear();
        return;
      case 'delete-rules':
      case 'flush-chain':
      case 'delete-jump':
        this.kernel.flushRules(deed.family);
        return;
      case 'add-node-address':
        this.#nodeAddresses.add(deed.address);
        this.#showNodeAddresses();
        return;
      case 'delete-node-address':
        this.#nodeAddresses.delete(deed.address);
        this.#showNodeAddresses();
        return;
      case 'shrink-set':
        tables.sets.set(deed.set.name, { set: { ...deed.set, maxEntries: 4 }, entries: new Map() });
        return;
      case 'retype-set':
        for (const family of [4, 6] as const) this.kernel.flushRules(family);
        tables.sets.set(deed.set.name, { set: deed.set, entries: new Map() });
        return;
      case 'add-flow':
        await this.#addFlow(deed.flow);
        return;
      // The in-memory kernel has no lock.
      case 'hold-lock-of-iptables':
        return;
      case 'change-address':
        if (tables.bound.has(deed.address)) tables.otherFlags.add(deed.address);
        return;
      case 'set-sysctl':
        this.kernel.sysctls.set(deed.key, deed.value);
        return;
      case 'set-timeouts':
        await this.kernel.setIpvsTimeouts(deed.timeouts);
        return;
      case 'destroy-sets':
        for (const family of [4, 6] as const) this.kernel.flushRules(family);
        tables.sets.clear();
        return;
      // The in-memory kernel has no link state.
      case 'set-device':
        return;
      default:
        unreachable(deed);
    }
  }

  async #addFlow(flow: Flow): Promise<void> {
    this.kernel.setUdpFlows([...(await this.kernel.getUdpFlows(4)), ...(await this.kernel.getUdpFlows(6)), flow]);
  }

  #showNodeAddresses(): void {
    this.kernel.setNodeAddresses(
      this.nodeAddresses.map((one) => ({ address: one, prefix: 24, interfaceName: 'eth0', tentative: false })),
    );
  }
}
