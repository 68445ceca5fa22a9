import { AddingOrder } from '../diff/adding-order.ts';
import { DrainLedger } from '../diff/drain.ts';
import { Yielder } from '../base/yielder.ts';
import { type IpFamily, familyOf } from '../base/ip.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../observe/log.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import { planLocalRoutes } from '../plan/local-routes.ts';
import { planRules } from '../plan/plan-rules.ts';
import type { Op, OpKind } from '../state/op.ts';
import { formatFailure } from '../state/outcome.ts';
import { transaction } from '../state/transaction.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';
import { changeOps } from './change-sync.ts';
import { applyGuarded } from './deny-guard.ts';
import { type DesiredState, KUBERNETES_SERVICE } from './desired-state.ts';
import type { InterfaceAddresses } from './interface-addresses.ts';
import { missingSets } from './missing-sets.ts';
import { readVirtualServers } from './read-virtual-servers.ts';

/** Operations that never remove anything, whatever the kernel contains. */
const ADDS: ReadonlySet<OpKind> = new Set<OpKind>([
  'add-entry',
  'add-virtual-server',
  'add-real-server',
  'bind-address',
]);

export interface BootstrapOptions {
  readonly kernel: Kernel;
  readonly plan: PlanConfig;
  readonly desired: DesiredState;
  readonly addresses: InterfaceAddresses;
  readonly log: Log;
}

/**
 * Programs `default/kubernetes` while the other Services are being listed, so that pods can reach the API server. It
 * only adds objects: the owners of existing ones are not known yet. The first sync does the same and reports errors.
 */
export class Bootstrap {
  readonly #options: BootstrapOptions;
  #running: Promise<void> | undefined;
  #written: readonly VirtualServerId[] = [];

  constructor(options: BootstrapOptions) {
    this.#options = options;
  }

  /** Virtual servers that the bootstrap may have added. They may have been changed or deleted since. */
  get written(): readonly VirtualServerId[] {
    return this.#written;
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
    const skipped = (reason: string): void => log.debug(2, `${KUBERNETES_SERVICE} not programmed early: ${reason}`);
    try {
      const reason = await this.#add();
      if (reason !== undefined) return skipped(reason);
      const now = performance.now();
      const fields = { ms: Math.round(now - startedAt), sinceStartMs: Math.round(now) };
      log.info(`${KUBERNETES_SERVICE} is served; listing the other services`, fields);
    } catch (error) {
      skipped(String(error));
    }
  }

  /** Returns the reason if nothing was added or operations failed. Rejects if the kernel cannot be read or written. */
  async #add(): Promise<string | undefined> {
    const { kernel, plan: config, desired, addresses } = this.#options;
    await addresses.findMarks();
    await addresses.read();
    const plan = desired.planAlone(KUBERNETES_SERVICE);
    const ops = await missingParts(kernel, plan);
    if (!ops.some(({ kind }) => kind === 'add-real-server')) return 'all its real servers exist';
    const families = config.families.filter((family) => ops.some((op) => familyOfOp(op) === family));
    const adds = ops.filter(
      (op) => ADDS.has(op.kind) && !(op.kind === 'add-entry' && !families.includes(op.set.family)),
    );
    const failures = [...(await kernel.apply(transaction(await missingSets(kernel, families, plan)))).failures];
    // Each family costs one run of iptables-restore, so a family without additions waits for the first sync.
    for (const family of families) {
      // These rules belong to a kube-proxy in another mode, which uses the same chain names.
      if (!(await kernel.addRules(planRules(config, family)))) return 'our chains hold other rules';
    }
    // A local route may replace binding the service's address. Adding an existing route succeeds.
    const routes = planLocalRoutes(config).map((cidr): Op => ({ kind: 'add-route', cidr }));
    const tx = await new Yielder().finish(new AddingOrder(config).arrange(transaction([...adds, ...routes])));
    this.#written = Array.from(plan.virtualServers(), ({ virtualServer }) => virtualServer);
    failures.push(...(await applyGuarded(kernel, plan, tx, { withdraw: false })).failures);
    return failures.length === 0 ? undefined : `the kernel refused ${failures.map(formatFailure).join(', ')}`;
  }
}

async function missingParts(kernel: Kernel, plan: NodePlan): Promise<readonly Op[]> {
  const changes = plan.takeChanges();
  const ids = changes.virtualServers.map(({ id }) => id);
  const have = await readVirtualServers(kernel, ids);
  return (await changeOps(plan, changes, have, new Map(), new DrainLedger(0), 0, new Yielder())).ops;
}

/** Returns the family of the virtual server of the operation; undefined for set entries and addresses. */
function familyOfOp(op: Op): IpFamily | undefined {
  if (op.kind === 'add-virtual-server') return familyOf(op.virtualServer.address);
  return op.kind === 'add-real-server' ? familyOf(op.id.address) : undefined;
}
