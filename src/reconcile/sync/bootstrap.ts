import type { AddingOrder } from '../../diff/adding-order.ts';
import { Yielder } from '../../base/yielder.ts';
import { DrainLedger } from '../../diff/drain.ts';
import { cidrFamily } from '../../base/cidr.ts';
import { type IpFamily, familyLabel } from '../../base/ip.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan, PlanChanges } from '../../plan/node/node-plan.ts';
import { type PlanConfig, planLocalRoutes } from '../../plan/plan-config.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { Op } from '../../state/op.ts';
import { formatFailure } from '../../state/outcome.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { changeOps, ofFamily } from './change-ops.ts';
import { applyGuarded } from '../guard/deny-guard.ts';
import { type DesiredState, KUBERNETES_SERVICE } from '../desired/desired-state.ts';
import type { InterfaceAddresses } from '../desired/interface-addresses.ts';
import { missingSets } from './missing-sets.ts';
import { readVirtualServers } from '../compare/read-virtual-servers.ts';

export interface BootstrapOptions {
  readonly kernel: Kernel;
  readonly plan: PlanConfig;
  readonly desired: DesiredState;
  readonly addresses: InterfaceAddresses;
  readonly order: AddingOrder;
  /** Receives the virtual servers that the bootstrap adds (see SyncParts). */
  readonly written: Set<VirtualServerKey>;
  readonly log: Log;
}

/**
 * Programs `default/kubernetes` while the other Services are being listed, so that pods can reach the API server. Only
 * adds objects, because it does not know who owns existing ones. The first sync repeats this and reports errors.
 */
export class Bootstrap {
  readonly #options: BootstrapOptions;
  #running: Promise<void> | undefined;

  constructor(options: BootstrapOptions) {
    this.#options = options;
  }

  /** Starts the bootstrap; later calls do nothing. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Waits for the end of the bootstrap; resolves at once if it was not started. */
  async wait(): Promise<void> {
    await this.#running;
  }

  /** Like wait(), and prevents a later start. */
  async stop(): Promise<void> {
    await (this.#running ??= Promise.resolve());
  }

  async #run(): Promise<void> {
    const { log } = this.#options;
    const startedAt = performance.now();
    const skipped = (reason: string): void =>
      log.debug(2, `${KUBERNETES_SERVICE} is not served before the first sync: ${reason}`);
    try {
      if (!(await this.#add(skipped))) return;
      const now = performance.now();
      const fields = { ms: Math.round(now - startedAt), sinceStartMs: Math.round(now) };
      log.info(`${KUBERNETES_SERVICE} is served; listing the other services`, fields);
    } catch (error) {
      skipped(String(error));
    }
  }

  /** Tries each IP family by itself. Returns whether any is served now that was not before. */
  async #add(skipped: (reason: string) => void): Promise<boolean> {
    const { plan: config, desired, addresses } = this.#options;
    await addresses.findMarks();
    await addresses.read();
    const plan = await desired.planAlone(KUBERNETES_SERVICE);
    const changes = plan.takeChanges();
    let isServed = false;
    for (const family of config.families) {
      const part = ofFamily(changes, family);
      if (part.virtualServers.length === 0) continue;
      const reason = await this.#addFamily(plan, family, part).catch(String);
      if (reason === undefined) isServed = true;
      else skipped(`${familyLabel(family)}: ${reason}`);
    }
    return isServed;
  }

  /** Returns the reason if nothing was added or operations failed. Rejects if the kernel cannot be read or written. */
  async #addFamily(plan: NodePlan, family: IpFamily, changes: PlanChanges): Promise<string | undefined> {
    const { kernel, plan: config, order, written } = this.#options;
    const found = await readVirtualServers(
      kernel,
      changes.virtualServers.map(({ id }) => id),
    );
    const context = { order, ledger: new DrainLedger(0), now: 0 };
    const missing = await changeOps(plan, changes, found, new Map(), context, new Yielder());
    const realServers = missing.of('add-real-server');
    // Each family costs one run of iptables-restore, so a family without additions waits for the first sync.
    if (realServers.length === 0) return 'all its real servers exist';
    const sets = await kernel.apply(await missingSets(kernel, [family], plan));
    // Other rules in these chains belong to a kube-proxy in another mode, which uses the same chain names.
    if (!(await kernel.addRules(planRules(config, family)))) return 'our chains hold other rules';
    // In light mode, a local route replaces the bound address. Adding an existing route succeeds.
    const cidrs = planLocalRoutes(config).filter((cidr) => cidrFamily(cidr) === family);
    // Only additions: the bootstrap removes nothing, whatever the kernel contains.
    const tx = new Transaction([
      ...missing.of('add-entry'),
      ...missing.of('add-virtual-server'),
      ...realServers,
      ...missing.of('bind-address'),
      ...cidrs.map((cidr): Op => ({ kind: 'add-route', cidr })),
    ]);
    for (const { id } of changes.virtualServers) written.add(virtualServerKey(id));
    const added = await applyGuarded(kernel, plan, tx, { withdraw: false });
    const failures = [...sets.failures, ...added.failures];
    return failures.length === 0 ? undefined : `the kernel refused ${failures.map(formatFailure).join(', ')}`;
  }
}
