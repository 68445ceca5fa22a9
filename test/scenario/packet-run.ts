import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { readKernelTables } from './kernel-tables.ts';
import { COMMON_FLAGS } from './plan-run.ts';
import { type Probe, judge } from './probe.ts';
import type { Scenario, Step } from './scenario-file.ts';
import { ScenarioState } from './scenario-state.ts';
import { difference } from './tables.ts';

/** How long a change of a file may take to be in the kernel of a slow machine. */
const SETTLE_MS = 10_000;
const PROBE_TIMEOUT_MS = 1_500;
/** Nobody answers: not worth waiting long for, in a network without loss. */
const SILENCE_MS = 400;
const ATTEMPTS = 6;

/** Two nodes with two pods each and a client; the bundled daemon on node-0 follows a directory that scenarios write. */
export class PacketRun implements AsyncDisposable {
  readonly #bed: Bed;
  readonly #scratch: string;
  #daemon: LongProcess | undefined;
  #flags: string | undefined;

  private constructor(bed: Bed, scratch: string) {
    this.#bed = bed;
    this.#scratch = scratch;
  }

  static async create(): Promise<PacketRun> {
    const scratch = await mkdtemp(path.join(tmpdir(), 'scenario-'));
    await mkdir(path.join(scratch, 'manifests'));
    const bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 1 });
    const run = new PacketRun(bed, scratch);
    for (const pod of run.#pods()) {
      for (const port of [8080, 8081]) {
        await pod.serveTcp(port);
        await pod.serveUdp(port);
      }
    }
    return run;
  }

  /** Answers what is wrong. */
  async run(scenario: Scenario): Promise<string[]> {
    const state = new ScenarioState();
    const wrong: string[] = [];
    await this.#bed.node(0).exec(['conntrack', '-F'], { allowFailure: true });
    for (const step of scenario.steps) {
      state.take(step);
      await this.#write(state.yaml());
      await this.#withFlags(scenario.flags);
      const found = [...(await this.#settle(step)), ...(await this.#probe(step.probes))];
      wrong.push(...found.map((text) => (step.title === '' ? text : `after "${step.title}": ${text}`)));
    }
    if (wrong.length > 0) wrong.push(`daemon:\n${this.#daemon?.output.split('\n').slice(-15).join('\n') ?? ''}`);
    return wrong;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bed[Symbol.asyncDispose]();
    await rm(this.#scratch, { recursive: true });
  }

  #pods(): Namespace[] {
    return [0, 1].flatMap((node) => [0, 1].map((pod) => this.#bed.pod(node, pod)));
  }

  async #write(yaml: string): Promise<void> {
    const file = path.join(this.#scratch, 'manifests', 'objects.yaml');
    await writeFile(`${file}.new`, yaml);
    await rename(`${file}.new`, file);
  }

  /** The daemon is started again only where a scenario has other flags than the one before it. */
  async #withFlags(flags: readonly string[]): Promise<void> {
    const wanted = flags.join(' ');
    if (this.#flags === wanted) return;
    await this.#daemon?.stop(10_000);
    const manifests = `--manifests=${path.join(this.#scratch, 'manifests')}`;
    this.#daemon = await startDaemon(this.#bed.node(0), [...COMMON_FLAGS, manifests, ...flags]);
    this.#flags = wanted;
  }

  async #settle(step: Step): Promise<string[]> {
    const deadline = Date.now() + SETTLE_MS;
    for (;;) {
      const wrong = await this.#compare(step);
      if (wrong.length === 0 || Date.now() > deadline) return wrong;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async #compare(step: Step): Promise<string[]> {
    const tables = { ...(await readKernelTables(this.#bed.node(0))), warnings: [], 'health checks': [] };
    return Array.from(step.tables, ([table, want]) =>
      table === 'warnings' || table === 'health checks' ? undefined : difference(table, want, tables),
    ).filter((text) => text !== undefined);
  }

  async #probe(probes: readonly Probe[]): Promise<string[]> {
    const wrong: string[] = [];
    for (const probe of probes) {
      const silent = probe.expect.kind === 'silent';
      const outcomes = [];
      for (let attempt = 0; attempt < (probe.expect.kind === 'answered' ? ATTEMPTS : 2); attempt++) {
        const timeoutMs = silent ? SILENCE_MS : PROBE_TIMEOUT_MS;
        outcomes.push(await this.#host(probe.from).probe(probe.protocol, probe.address, probe.port, { timeoutMs }));
      }
      const found = judge(probe, outcomes, (name) => this.#addresses(name));
      if (found !== undefined) wrong.push(found);
    }
    return wrong;
  }

  #host(name: string): Namespace {
    const [kind, first, second] = name.split('-');
    if (kind === 'client') return this.#bed.client(Number(first));
    return kind === 'node' ? this.#bed.node(Number(first)) : this.#bed.pod(Number(first), Number(second));
  }

  /** Of a node also the gateway of its pods. */
  #addresses(name: string): string[] {
    const { v4, v6 } = this.#host(name).addresses;
    const index = /^node-(\d)$/.exec(name)?.[1];
    return index === undefined
      ? [v4, v6]
      : [v4, v6, `10.201.${index}.1`, index === '0' ? 'fd00:201::1' : `fd00:201:0:${index}::1`];
  }
}
