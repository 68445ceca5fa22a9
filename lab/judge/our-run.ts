import { parseArgv } from '../../src/cli/parse-argv.ts';
import { resolveConfig } from '../../src/config/resolve.ts';
import { planConfigOf } from '../../src/daemon/startup/node-identity.ts';
import type { Kernel, NodeAddress } from '../../src/kernel/kernel.ts';
import { readManifests } from '../../src/kube/manifests/manifest-file.ts';
import {
  type ManifestSet,
  eventsBetween,
  mergeManifests,
  replacedEvents,
} from '../../src/kube/manifests/manifest-set.ts';
import { Interner } from '../../src/kube/objects/interner.ts';
import { Cluster } from '../../src/model/cluster.ts';
import type { NodePlan } from '../../src/plan/node/node-plan.ts';
import { Reconciling } from '../../test/support/reconciling.ts';
import { address } from '../../test/support/state.ts';
import { type Case, type CaseConfig, type ClusterObject, type Step, keyOf, nameOf } from './case/case.ts';

/** The arguments of the daemon for the settings of a case. */
export function argumentsOf(config: CaseConfig): string[] {
  const lists: [string, readonly string[]][] = [
    ['cluster-cidr', config.clusterCIDRs],
    ['nodeport-addresses', config.nodePortAddresses],
    ['feature-gates', Object.entries(config.featureGates).map(([name, value]) => `${name}=${value}`)],
  ];
  const texts: [string, string][] = [
    ['ipvs-scheduler', config.scheduler],
    ['detect-local-mode', config.detectLocalMode],
    ['pod-bridge-interface', config.detectLocalMode === 'BridgeInterface' ? 'cni0' : ''],
    ['pod-interface-name-prefix', config.detectLocalMode === 'InterfaceNamePrefix' ? 'cni' : ''],
    ['bind-address', config.bindAddress],
    ...lists.map(([name, values]): [string, string] => [name, values.join(',')]),
  ];
  const given = texts.filter(([, value]) => value !== '').map(([name, value]) => `--${name}=${value}`);
  return [...given, `--masquerade-all=${config.masqueradeAll}`];
}

/** Our side of a case, on a kernel in memory. */
export class OurRun {
  readonly #run: Reconciling;
  readonly #nodeName: string;
  readonly #objects = new Map<string, Case['node'] | ClusterObject>();
  #current: ManifestSet | undefined;

  constructor({ config, node }: Case, kernel: Kernel) {
    const nodeName = node.metadata.name;
    const parsed = parseArgv([
      `--proxy-mode=${kernel.mode}`,
      `--hostname-override=${nodeName}`,
      ...argumentsOf(config),
    ]);
    if (!parsed.ok) throw new Error(parsed.errors.join('; '));
    const resolved = resolveConfig(parsed.given, undefined);
    // The daemon waits for its Node before it plans.
    const cluster = new Cluster(nodeName);
    for (const event of replacedEvents(manifestsOf([node], nodeName))) cluster.apply(event);
    const plan = planConfigOf(resolved, nodeName, [4, 6], cluster);
    const { nodeIpOverride, excludeCidrs } = resolved;
    this.#run = new Reconciling(kernel, { plan, nodeIpOverride, excludeCidrs }, resolved.serviceAnnotations);
    this.#nodeName = nodeName;
    this.#objects.set('Node', node);
  }

  /** Makes the changes of a step and waits for all that follows from them. */
  async take(step: Step): Promise<void> {
    for (const object of step.apply) this.#objects.set(keyOf(nameOf(object)), object);
    for (const name of step.remove) this.#objects.delete(keyOf(name));
    const next = manifestsOf([...this.#objects.values()], this.#nodeName);
    const events = this.#current === undefined ? replacedEvents(next) : eventsBetween(this.#current, next);
    this.#current = next;
    if (events.length > 0) await this.#run.settle(...events);
  }

  get plan(): NodePlan {
    return this.#run.reconciler.plan;
  }

  stop(): Promise<void> {
    return this.#run.reconciler.stop();
  }
}

/** The objects as the daemon reads them from files, with its selectors. */
function manifestsOf(objects: readonly object[], nodeName: string): ManifestSet {
  const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
  const file = readManifests(text, nodeName, new Interner());
  if (!file.ok) throw new Error(file.message);
  return mergeManifests(new Map([['objects.json', file.objects]])).set;
}

/** The addresses of the node, as a kernel reports them. */
export function nodeAddressesOf({ interfaces }: Case): NodeAddress[] {
  return Object.entries(interfaces).flatMap(([interfaceName, addresses]) =>
    addresses.map((text) => {
      const [ip = '', prefix = ''] = text.split('/');
      return { address: address(ip), prefix: Number(prefix), interfaceName, tentative: false };
    }),
  );
}
