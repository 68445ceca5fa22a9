import { errorText } from '../base/text/error-text.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { createCommandRunner } from '../kernel/command-runner.ts';
import { KernelError } from '../kernel/kernel-error.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { Leftovers, describeLeftover } from '../kernel/iptables/leftovers.ts';
import { createIpvsKernel } from '../kernel/ipvs/ipvs-kernel.ts';
import { PodNamespaceFolder } from '../kernel/linux/pods/pod-namespace-folder.ts';
import type { Cidr } from '../base/cidr.ts';
import { IP_FAMILIES, type IpFamily } from '../base/ip.ts';
import { deletionOf } from '../diff/route-diff.ts';
import type { Log } from '../observe/log/log.ts';
import { rulesToRemove } from '../plan/ipvs/plan-rules.ts';
import { SET_ROLES, setName } from '../plan/ipvs/set-names.ts';
import { NODE_PORT_ADDRESS_SETS, Ownership } from '../reconcile/node/ownership.ts';
import { SYSTEM_CLOCK } from '../reconcile/timing/clock.ts';
import { PodInterfaces } from '../reconcile/pods/pod-interfaces.ts';
import { PodPreparer } from '../reconcile/pods/pod-preparer.ts';
import { type Op, countsInWords, firstInWords } from '../state/op.ts';
import { formatFailure } from '../state/outcome.ts';
import type { RuleSet } from '../state/rules/rule-set.ts';
import { Transaction } from '../state/transaction.ts';
import type { VirtualServer } from '../state/virtual-server.ts';
import { runningDaemon } from './startup/daemon-lock.ts';
import { reportFailure } from './startup/report-failure.ts';
import { openLog } from './startup/open-log.ts';
import { requireRights } from './startup/rights.ts';
import { StartupError } from './startup/startup-error.ts';

const OUR_SETS: ReadonlySet<string> = new Set(SET_ROLES.flatMap((role) => IP_FAMILIES.map((f) => setName(role, f))));

/** Removes the kernel objects of this proxy and of kube-proxy in any mode. Resolves to the exit code. */
export async function cleanUp(config: ProxyConfig): Promise<number> {
  const { log } = openLog(config);
  return reportFailure(log, async () => {
    requireRights({ rules: true, podNamespaces: config.prepareDirectPods });
    requireNoDaemon(await runningDaemon(), config.force, log);
    const kernel = createIpvsKernel({ log: log.child('kernel') });
    try {
      const withdrawn = !config.prepareDirectPods || (await withdrawFromPods(kernel, config, log));
      const code = await removeAll(kernel, new Leftovers(createCommandRunner()), config, log);
      return withdrawn ? code : 1;
    } finally {
      await kernel.close();
    }
  });
}

/** Takes our devices and addresses out of the Pods of this node. Resolves to whether that succeeded. */
async function withdrawFromPods(kernel: Kernel, config: ProxyConfig, log: Log): Promise<boolean> {
  const preparer = new PodPreparer({
    namespaces: new PodNamespaceFolder(config.podNamespaceFolder, createCommandRunner()),
    interfaces: new PodInterfaces(kernel),
    clock: SYSTEM_CLOCK,
    log,
    onWarning: () => undefined,
  });
  try {
    await preparer.withdrawAll();
    return true;
  } catch (error) {
    log.error(
      `failed to remove our devices and addresses from the Pods that answer clients without NAT: ${errorText(error)}`,
    );
    return false;
  }
}

/** Throws if a daemon is running and `force` is false: it would recreate all objects, and connections would break. */
export function requireNoDaemon(daemon: string | undefined, force: boolean, log: Log): void {
  if (daemon === undefined) return;
  if (!force) {
    throw new StartupError(
      `kube-ipvs-proxy runs in this network namespace (${daemon}): stop that daemon first, because it would write everything again. ` +
        'With --force everything is removed anyway, and connections through Services break',
    );
  }
  log.warn(
    `kube-ipvs-proxy runs in this network namespace (${daemon}): removing everything because of --force. The daemon will create everything again; ` +
      'until then Services are unavailable and connections break',
  );
}

/**
 * Removes leftovers of other modes first, because they refer to our chains; then our rules, because they refer to the
 * sets; then virtual servers, routes and sets; kube-ipvs0 last. Missing objects are not an error. Resolves to the exit code.
 */
export async function removeAll(
  kernel: Kernel,
  others: Pick<Leftovers, 'find' | 'remove'>,
  config: ProxyConfig,
  log: Log,
): Promise<number> {
  let failed = 0;
  const attempt = attempts(log, () => failed++);
  await attempt('leftovers of other kube-proxy modes', async () => {
    for (const leftover of await others.find()) {
      const what = describeLeftover(leftover);
      await attempt(what, async () => {
        await others.remove(leftover);
        log.info(`removed leftovers of another kube-proxy mode: ${what}`);
      });
    }
  });
  failed += await removeOwn(kernel, config, log);
  await attempt('kube-ipvs0', () => kernel.removeDevice());
  return failed === 0 ? 0 : 1;
}

type Attempt = (what: string, step: () => Promise<void>) => Promise<void>;

function attempts(log: Log, onFailure: () => void): Attempt {
  return async (what, step) => {
    try {
      await step();
    } catch (error) {
      onFailure();
      log.error(`failed to remove ${what}: ${errorText(error)}`);
    }
  };
}

/** Removes what ipvs mode has, except kube-ipvs0. Returns how many objects could not be removed. */
export async function removeOwn(
  kernel: Kernel,
  config: ProxyConfig,
  log: Log,
  rulesOf: (family: IpFamily) => RuleSet = rulesToRemove,
): Promise<number> {
  let failed = 0;
  const attempt = attempts(log, () => failed++);
  const hasIpvs = await prepare(kernel, log);
  for (const family of IP_FAMILIES) {
    await attempt(`the rules of IPv${family}`, () => kernel.removeRules(rulesOf(family)));
  }
  await attempt('virtual servers and sets', async () => {
    const tx = new Transaction(await leftovers(kernel, config, hasIpvs));
    const outcome = await kernel.apply(tx);
    failed += outcome.failures.length;
    for (const failure of outcome.failures) log.error(`failed to clean up: ${formatFailure(failure)}`);
    const failures = new Set(outcome.failures.map(({ op }) => op));
    const removed = [...tx].filter((op) => !failures.has(op));
    log.info('clean-up done', { removed: countsInWords(removed), objects: firstInWords(removed), failed });
  });
  return failed;
}

async function prepare(kernel: Kernel, log: Log): Promise<boolean> {
  try {
    await kernel.prepare();
    return true;
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    if (error.code === 'MISSING_MODULE') {
      log.info('IPVS is not loaded: no virtual servers to remove');
      return false;
    }
    // prepare() checks kube-ipvs0 last, so IPVS is loaded. The interface belongs to another program.
    if (error.code !== 'EEXIST') throw error;
    log.warn(`${error.message}. The interface is left alone`);
    return true;
  }
}

async function leftovers(kernel: Kernel, config: ProxyConfig, hasIpvs: boolean): Promise<Op[]> {
  const sets = await kernel.getSets();
  const ops: Op[] = sets
    .filter((set) => OUR_SETS.has(set.name))
    .map(({ entries: _entries, ...set }) => ({ kind: 'destroy-set', set }));
  for (const route of await kernel.getLocalRoutes()) if (route.ours) ops.push(deletionOf(route));
  if (!hasIpvs) return ops;
  for (const { address, port, protocol } of await ownedVirtualServers(kernel, config.excludeCidrs)) {
    ops.push({ kind: 'delete-virtual-server', id: { address, port, protocol } });
  }
  return ops;
}

/** Returns the virtual servers of this proxy or of kube-proxy. */
export async function ownedVirtualServers(
  kernel: Pick<Kernel, 'getSets' | 'getBoundAddresses' | 'getLocalRoutes' | 'getNodeAddresses' | 'getVirtualServers'>,
  excluded: readonly Cidr[],
): Promise<VirtualServer[]> {
  const sets = await kernel.getSets();
  const marked = sets.some(({ name, entries }) => NODE_PORT_ADDRESS_SETS.includes(name) && entries.length > 0);
  const bound = (await kernel.getBoundAddresses()).map(({ address }) => address);
  // While ipvs mode is being retired, such routes replace the addresses that were bound to kube-ipvs0.
  const replaced = (await kernel.getLocalRoutes()).filter(({ ours, source }) => ours && source !== undefined);
  const ownership = new Ownership({
    sets,
    boundAddresses: [...bound, ...replaced.map(({ cidr }) => cidr.address)],
    interfaceAddresses: marked ? [] : (await kernel.getNodeAddresses()).map(({ address }) => address),
    excluded,
  });
  return (await kernel.getVirtualServers()).filter((id) => ownership.owns(id));
}
