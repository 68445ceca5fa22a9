import { toolCommand } from '../../src/explain/tool-command.ts';
import { planConfigOf } from '../../src/daemon/startup/node-identity.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { Interner } from '../../src/kube/objects/interner.ts';
import { readManifests } from '../../src/kube/manifests/manifest-file.ts';
import {
  type ManifestSet,
  eventsBetween,
  mergeManifests,
  replacedEvents,
} from '../../src/kube/manifests/manifest-set.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import type { ServiceDefaults } from '../../src/base/service-defaults.ts';
import { Cluster } from '../../src/model/cluster.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { formatCidr } from '../../src/base/cidr.ts';
import { IP_FAMILIES, formatIp, isLinkLocal6 } from '../../src/base/ip.ts';
import { hostPrefix } from '../../src/state/bound-address.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import {
  VS_ONE_PACKET,
  VS_PERSISTENT,
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
  formatVirtualServer,
  virtualServerKey,
} from '../../src/state/virtual-server.ts';
import type { NamespacedName } from '../../src/base/names.ts';
import type { ServiceReply } from '../../src/explain/replies.ts';
import { healthCheckLines } from '../support/health-check-lines.ts';
import { Reconciling } from '../support/reconciling.ts';
import { address } from '../support/state.ts';
import { configOf } from './scenario-config.ts';
import { explainLines } from './explain-lines.ts';
import { readFlow, flowLine, layConnections, layKernel } from './given.ts';
import type { Scenario, Step } from './scenario-file.ts';
import { NODE_ADDRESSES, ScenarioState } from './scenario-state.ts';
import { type Tables, difference, setLine, virtualServerLine } from './tables.ts';

/** Runs a scenario through manifests, model, plan and reconciler on the kernel in memory; answers what is wrong. */
export async function runOnPlan(scenario: Scenario): Promise<string[]> {
  const results = await plannedTables(scenario);
  return scenario.steps.flatMap(({ title, tables: wanted }, index) => {
    const found = Array.from(wanted, ([table, want]) => difference(table, want, results[index] ?? {}));
    return found
      .filter((text) => text !== undefined)
      .map((text) => (title === '' ? text : `after "${title}": ${text}`));
  });
}

/** All tables as they are after each step. */
export async function plannedTables(scenario: Scenario, inMode: Partial<PlanConfig> = {}): Promise<Tables[]> {
  const run = await PlanRun.start(scenario, inMode);
  const state = new ScenarioState();
  const results: Tables[] = [];
  for (const step of scenario.steps) {
    state.take(step);
    await run.take(state.yaml(), step);
    results.push(await run.tables());
  }
  return results;
}

class PlanRun {
  readonly #kernel: FakeKernel;
  readonly #run: Reconciling;
  readonly #defaults: readonly ServiceDefaults[];
  #current: ManifestSet | undefined;
  #manifestWarnings: readonly string[] = [];

  private constructor(kernel: FakeKernel, run: Reconciling, defaults: readonly ServiceDefaults[]) {
    this.#kernel = kernel;
    this.#run = run;
    this.#defaults = defaults;
  }

  static async start(scenario: Scenario, inMode: Partial<PlanConfig>): Promise<PlanRun> {
    const config = configOf(scenario);
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.setNodeAddresses(
      ['127.0.0.1', '::1', ...NODE_ADDRESSES[4], ...NODE_ADDRESSES[6], ...scenario.nodeAddresses].map((text) => ({
        address: address(text),
        prefix: 24,
        interfaceName: 'eth0',
        tentative: false,
      })),
    );
    const cluster = new Cluster('node-0');
    const state = new ScenarioState();
    if (scenario.steps[0] !== undefined) state.take(scenario.steps[0]);
    const node = readManifests(state.yaml(), 'node-0', new Interner());
    if (!node.ok) throw new Error(node.message);
    cluster.apply(replacedEvents(mergeManifests(new Map([['node', node.objects]])).set)[0] as SourceEvent);
    const plan = { ...planConfigOf(config, 'node-0', [4, 6], cluster), ...inMode };
    return new PlanRun(
      kernel,
      new Reconciling(
        kernel,
        {
          plan,
          excludeCidrs: config.excludeCidrs,
          nodeIpOverride: config.nodeIpOverride,
          syncPeriodMs: config.syncPeriod,
          drainTimeoutMs: config.drainTimeout,
        },
        config.serviceAnnotations,
      ),
      config.serviceDefaults,
    );
  }

  async take(yaml: string, { givens, afterSeconds }: Step): Promise<void> {
    layKernel(this.#kernel, givens.get('kernel before') ?? []);
    layConnections(this.#kernel, givens.get('connections') ?? []);
    const flows = givens.get('flows');
    if (flows !== undefined) this.#kernel.setUdpFlows(flows.map(readFlow));
    const file = readManifests(yaml, 'node-0', new Interner(), { defaults: this.#defaults });
    if (!file.ok) throw new Error(`line ${file.line}: ${file.message}`);
    this.#manifestWarnings = file.warnings;
    const { set: next } = mergeManifests(new Map([['objects.yaml', file.objects]]));
    const events = this.#current === undefined ? replacedEvents(next) : eventsBetween(this.#current, next);
    this.#current = next;
    if (events.length > 0) await this.#run.take(...events);
    if (afterSeconds > 0) await this.#run.pass(afterSeconds * 1000);
    await this.#compare();
  }

  /** `kube-ipvs-proxy diff` finds nothing after each step, and changes nothing. */
  async #compare(): Promise<void> {
    const { writes } = this.#kernel.counters;
    const { ops, rules, settings } = await this.#run.reconciler.difference(new AbortController().signal);
    const found = [...settings, ...rules.map(({ command }) => command), ...ops.map(toolCommand)];
    if (found.length > 0) throw new Error(`diff finds: ${found.join('; ')}`);
    for (const reply of await this.#explanations()) this.#agree(reply);
    if (this.#kernel.counters.writes !== writes) throw new Error('diff or explain has written');
  }

  /** What is explained as used is what is planned, and nothing is left out without a reason. */
  #agree({ service, ports }: ServiceReply): void {
    const planned = this.#run.reconciler.plan.service(service as NamespacedName)?.virtualServers ?? [];
    for (const { name, protocol, endpoints, notes } of ports) {
      const own = planned.filter((each) => each.portName === name && each.virtualServer.protocol === protocol);
      const chosen = own.flatMap(({ realServers }) => realServers).filter(({ weight }) => weight > 0);
      const wanted = new Set(chosen.map(formatRealServer));
      const used = endpoints.filter(({ use }) => use !== 'none').map(({ at }) => at);
      // A reply lists a limited number of endpoints.
      const isWhole = !notes.some((note) => note.includes('more endpoints are not listed'));
      if ((isWhole && used.length !== wanted.size) || !used.every((at) => wanted.has(at)))
        throw new Error(`${service} uses ${[...wanted].join()}, and explains ${used.join()}`);
      const bare = endpoints.filter(({ use, why = '' }) => (use === 'all') === (why !== ''));
      if (bare.length > 0) throw new Error(`no reason: ${JSON.stringify(bare)}`);
    }
  }

  async tables(): Promise<Tables> {
    const plan = this.#run.reconciler.plan;
    const sets = await this.#kernel.getSets();
    const addresses = await this.#kernel.getBoundAddresses();
    const routes = await this.#kernel.getLocalRoutes();
    return {
      'virtual servers': await this.#virtualServers(),
      sets: sets.map((set) => setLine(set.name, set.entries.map(formatIpSetEntry))),
      addresses: addresses.filter(({ address }) => !isLinkLocal6(address)).map(({ address }) => formatIp(address)),
      'local routes': routes.map(({ cidr }) => formatCidr(cidr)),
      warnings: [
        ...this.#manifestWarnings.map(() => 'manifest'),
        ...Array.from(plan.services(), ({ warnings }) => warnings.map(({ reason }) => reason)).flat(),
        ...Array.from(plan.services(), ({ service }) => plan.conflictsOf(service))
          .flat()
          .map(({ service, claimed }) => `${claimed} not for ${service}`),
      ],
      'health checks': healthCheckLines(plan),
      'no local endpoints': Array.from(plan.services(), ({ service, noLocalEndpoints: { internal, external } }) => [
        ...internal.map((family) => `${service} internal IPv${family}`),
        ...external.map((family) => `${service} external IPv${family}`),
      ]).flat(),
      rules: this.#rules(),
      explain: (await this.#explanations()).flatMap(explainLines),
      'flows left': [...(await this.#kernel.getUdpFlows(4)), ...(await this.#kernel.getUdpFlows(6))].map(flowLine),
    };
  }

  async #explanations(): Promise<ServiceReply[]> {
    const replies = this.#run.cluster
      .names()
      .map((name) => this.#run.reconciler.explainService(name, (rules) => this.#kernel.compareRules(rules)));
    return (await Promise.all(replies)).filter((reply) => reply !== undefined);
  }

  #rules(): string[] {
    return IP_FAMILIES.flatMap((family) =>
      (this.#kernel.rules(family)?.chains ?? []).flatMap(({ table, name, rules }) =>
        rules.map((rule) => `IPv${family} ${table} ${name} ${rule.join(' ')}`),
      ),
    );
  }

  async #virtualServers(): Promise<string[]> {
    const services = await this.#kernel.getVirtualServers();
    const servers = await this.#kernel.getRealServers(services);
    return services.map((service) => {
      const { address, flags, timeout, prefix } = service;
      const options = [
        ...((flags & VS_PERSISTENT) === 0 ? [] : [`persistent ${timeout}`]),
        ...(prefix === hostPrefix(address) ? [] : [`/${prefix}`]),
        ...((flags & VS_ONE_PACKET) === 0 ? [] : ['one-packet']),
        ...((flags & VS_SCHED_FALLBACK) === 0 ? [] : ['fallback']),
        ...((flags & VS_SCHED_PORT) === 0 ? [] : ['port']),
      ];
      const found = servers.get(virtualServerKey(service)) ?? [];
      const real = found.map((server) => {
        const { weight, upperThreshold = 0, lowerThreshold = 0 } = server;
        const limit = upperThreshold === 0 ? '' : `${upperThreshold}/${lowerThreshold}`;
        return { at: formatRealServer(server), weight, limit };
      });
      return virtualServerLine(formatVirtualServer(service), service.scheduler, options, real);
    });
  }
}
