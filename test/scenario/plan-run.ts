import { planConfigOf } from '../../src/daemon/startup/node-identity.ts';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { PLANES, type Plane } from '../fake-kernel/planes.ts';
import { Interner } from '../../src/kube/objects/interner.ts';
import { readManifests } from '../../src/kube/manifests/manifest-file.ts';
import {
  type ManifestSet,
  eventsBetween,
  mergeManifests,
  replacedEvents,
} from '../../src/kube/manifests/manifest-set.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import type { ServiceDefaults } from '../../src/base/service/service-defaults.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { formatOp } from '../../src/state/op.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import type { NamespacedName } from '../../src/base/service/names.ts';
import type { ServiceReply } from '../../src/explain/replies.ts';
import { healthCheckLines } from '../support/health-check-lines.ts';
import { Reconciling } from '../support/reconciling.ts';
import { address } from '../support/state.ts';
import { configOf } from './scenario-config.ts';
import { explainLines } from './explain-lines.ts';
import { readFlow, flowLine, layConnections, layKernel } from './given.ts';
import { NOT_IN_MODE, probesIn, tablesIn } from './in-mode.ts';
import { readTables } from './read-tables.ts';
import type { Given, Probes, Scenario, Step } from './scenario-file.ts';
import { NODE_ADDRESSES, ScenarioState } from './scenario-state.ts';
import { type Tables, difference } from './tables.ts';
import { traceProbes } from './traced-probes.ts';

/** Runs a scenario through manifests, model, plan and reconciler on a mode in memory; answers what is wrong. */
export async function runOnPlan(scenario: Scenario, mode: ProxyMode): Promise<string[]> {
  const { name, nodeAddresses } = scenario;
  const found = await afterEachStep(scenario, mode, async (run, step) => {
    const tables = await run.tables();
    const wrong = [
      ...Array.from(tablesIn(mode, name, step), ([table, want]) => difference(table, want, tables)),
      ...(await run.trace(probesIn(mode, step), nodeAddresses)),
    ];
    return wrong
      .filter((text) => text !== undefined)
      .map((text) => (step.title === '' ? text : `after "${step.title}": ${text}`));
  });
  return found.flat();
}

/** All tables as they are after each step. */
export function plannedTables(scenario: Scenario, mode: ProxyMode): Promise<Tables[]> {
  return afterEachStep(scenario, mode, (run) => run.tables());
}

async function afterEachStep<T>(
  scenario: Scenario,
  mode: ProxyMode,
  look: (run: PlanRun, step: Step) => Promise<T>,
): Promise<T[]> {
  const run = await PlanRun.start(scenario, mode);
  const state = new ScenarioState();
  const results: T[] = [];
  for (const step of scenario.steps) {
    state.take(step);
    await run.take(state.yaml(), step);
    results.push(await look(run, step));
  }
  return results;
}

class PlanRun {
  readonly #mode: ProxyMode;
  readonly #plane: Plane;
  readonly #run: Reconciling;
  readonly #defaults: readonly ServiceDefaults[];
  #current: ManifestSet | undefined;
  #manifestWarnings: readonly string[] = [];

  private constructor(mode: ProxyMode, plane: Plane, run: Reconciling, defaults: readonly ServiceDefaults[]) {
    this.#mode = mode;
    this.#plane = plane;
    this.#run = run;
    this.#defaults = defaults;
  }

  static async start(scenario: Scenario, mode: ProxyMode): Promise<PlanRun> {
    const config = configOf(scenario, mode);
    const plane = PLANES[mode]();
    await plane.kernel.prepare();
    plane.node.setNodeAddresses(
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
    return new PlanRun(
      mode,
      plane,
      new Reconciling(
        plane.kernel,
        {
          plan: planConfigOf(config, 'node-0', [4, 6], cluster),
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
    const { node } = this.#plane;
    const given = (part: Given): readonly string[] =>
      NOT_IN_MODE[this.#mode][part] === undefined ? (givens.get(part) ?? []) : [];
    layKernel(node, given('kernel before'));
    layConnections(node, given('connections'));
    if (givens.has('flows')) node.setUdpFlows(given('flows').map(readFlow));
    const file = readManifests(yaml, 'node-0', new Interner(), { defaults: this.#defaults });
    if (!file.ok) throw new Error(`line ${file.line}: ${file.message}`);
    this.#manifestWarnings = file.warnings;
    const { set: next } = mergeManifests(new Map([['objects.yaml', file.objects]]));
    const events = this.#current === undefined ? replacedEvents(next) : eventsBetween(this.#current, next);
    this.#current = next;
    if (events.length > 0) await this.#run.settle(...events);
    await this.#pass(afterSeconds * 1000);
    await this.#compare();
  }

  /** Waits for the sync of a timer, if one is due in this time. */
  async #pass(ms: number): Promise<void> {
    const { clock } = this.#run;
    if (ms > 0 && (clock.nextIn ?? Infinity) <= ms) await this.#run.pass(ms);
    else clock.advance(ms);
  }

  /** `kube-ipvs-proxy diff` finds nothing after each step, and changes nothing. */
  async #compare(): Promise<void> {
    const writes = this.#plane.writes();
    const { ops, rules, settings } = await this.#run.reconciler.answers.difference(new AbortController().signal);
    const found = [...settings, ...rules.map(({ command }) => command), ...ops.map(formatOp)];
    if (found.length > 0) throw new Error(`diff finds: ${found.join('; ')}`);
    for (const reply of await this.#explanations()) this.#agree(reply);
    if (this.#plane.writes() !== writes) throw new Error('diff or explain has written');
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
    const { node } = this.#plane;
    return {
      ...(await readTables(this.#plane.another())),
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
      rules: await this.#plane.rules(),
      explain: (await this.#explanations()).flatMap(explainLines),
      'flows left': [...(await node.getUdpFlows(4)), ...(await node.getUdpFlows(6))].map(flowLine),
    };
  }

  /** What the rules do to the first packet of each probe; in ipvs mode, only the kernel knows. */
  async trace(probes: Probes, nodeAddresses: readonly string[]): Promise<string[]> {
    const rulesetOf = this.#plane.rulesetOf;
    const connections = probes.flatMap((probe) => ('kind' in probe ? [] : [probe]));
    return rulesetOf === undefined || connections.length === 0
      ? []
      : await traceProbes({ ...this.#plane, rulesetOf }, connections, nodeAddresses);
  }

  async #explanations(): Promise<ServiceReply[]> {
    const replies = this.#run.cluster
      .names()
      .map((name) => this.#run.reconciler.answers.service(name, (rules) => this.#plane.kernel.compareRules(rules)));
    return (await Promise.all(replies)).filter((reply) => reply !== undefined);
  }
}
