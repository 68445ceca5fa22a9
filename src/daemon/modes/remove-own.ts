import { errorText } from '../../base/text/error-text.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { KernelError } from '../../kernel/kernel-error.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Cidr } from '../../base/cidr.ts';
import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { deletionOf } from '../../diff/route-diff.ts';
import type { Log } from '../../observe/log/log.ts';
import { rulesToRemove } from '../../plan/ipvs/plan-rules.ts';
import { SET_ROLES, setName } from '../../state/set-roles.ts';
import { NODE_PORT_ADDRESS_SETS, Ownership } from '../../reconcile/node/ownership.ts';
import { type Op, countsInWords, firstInWords, deletionOfServer } from '../../state/op.ts';
import { formatFailure } from '../../state/outcome.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import type { VirtualServer } from '../../state/virtual-server.ts';

const OUR_SETS: ReadonlySet<string> = new Set(SET_ROLES.flatMap((role) => IP_FAMILIES.map((f) => setName(role, f))));

type Attempt = (what: string, step: () => Promise<void>) => Promise<void>;

export function removalAttempts(log: Log, onFailure: () => void): Attempt {
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
  const attempt = removalAttempts(log, () => failed++);
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
  return [...ops, ...(await ownedVirtualServers(kernel, config.excludeCidrs)).map(deletionOfServer)];
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
