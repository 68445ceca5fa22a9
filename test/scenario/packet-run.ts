import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { formatIp } from '../../src/base/ip.ts';
import type { ProbeRequest } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { address } from '../support/state.ts';
import type { Action } from './action.ts';
import { probesIn } from './in-mode.ts';
import { KERNEL_TABLES, readKernelTables } from './kernel-tables.ts';
import { closeReaders, readModeTables } from './mode-tables.ts';
import { plannedTables } from './plan-run.ts';
import { commonFlags, configFileOf } from './scenario-config.ts';
import { type Outcome, type Probe, judge } from './probe.ts';
import type { Probes, Scenario, Step } from './scenario-file.ts';
import { ScenarioState } from './scenario-state.ts';
import { type Tables, difference } from './tables.ts';

/** How long a change of a file may take to be in the kernel of a slow machine. */
const SETTLE_MS = 10_000;
const PROBE_TIMEOUT_MS = 1_500;
/** The time after which a missing response is certain: short, because the network loses nothing. */
const SILENCE_MS = 400;
/** With random choice, each of two pods is missed by all attempts in one of half a million cases. */
const ATTEMPTS = TEST_MODE === 'ipvs' || TEST_MODE === 'userspace' ? 6 : 20;

/** Two nodes with two pods each and a client; the bundled daemon on node-0 follows a directory that scenarios write. */
export class PacketRun implements AsyncDisposable {
  readonly #bed: Bed;
  readonly #scratch: string;
  readonly #held = new Map<string, KeptConnection>();
  #daemon: LongProcess | undefined;
  #configuration: string | undefined;

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
    const node = this.#bed.node(0);
    await node.exec(['conntrack', '-F'], { allowFailure: true });
    await node.ip(scenario.nodeAddresses.map((address) => `addr add ${address}/${prefixOf(address)} dev eth0 nodad`));
    const planned = await plannedTables(scenario, TEST_MODE);
    for (const [index, step] of scenario.steps.entries()) {
      state.take(step);
      await this.#write(state.yaml());
      await this.#configure(scenario);
      const found = [...(await this.#settle(step, planned[index])), ...(await this.#probe(probesIn(TEST_MODE, step)))];
      wrong.push(...found.map((text) => (step.title === '' ? text : `after "${step.title}": ${text}`)));
    }
    await node.ip(scenario.nodeAddresses.map((address) => `addr del ${address}/${prefixOf(address)} dev eth0`));
    await Promise.all(Array.from(this.#held.values(), (connection) => connection.close()));
    this.#held.clear();
    if (wrong.length > 0) wrong.push(`daemon:\n${this.#daemon?.output.split('\n').slice(-15).join('\n') ?? ''}`);
    return wrong;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await closeReaders();
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

  /** The daemon is started again only where a scenario has another configuration than the one before it. */
  async #configure(scenario: Scenario): Promise<void> {
    const content = configFileOf(scenario, TEST_MODE);
    const wanted = [...scenario.flags, content ?? ''].join(' ');
    if (this.#configuration === wanted) return;
    await this.#daemon?.stop(10_000);
    const flags = [
      ...commonFlags(TEST_MODE),
      `--manifests=${path.join(this.#scratch, 'manifests')}`,
      ...scenario.flags,
    ];
    if (content !== undefined) {
      const file = path.join(this.#scratch, 'config.yaml');
      await writeFile(file, content);
      flags.push(`--config=${file}`);
    }
    this.#daemon = await startDaemon(this.#bed.node(0), flags);
    this.#configuration = wanted;
  }

  /**
   * Waits until the kernel holds what the plan of the kernel in memory came to: all of it, not only what the file
   * shows.
   */
  async #settle(step: Step, planned: Partial<Tables> = {}): Promise<string[]> {
    const deadline = Date.now() + SETTLE_MS + step.afterSeconds * 1000;
    for (;;) {
      const wrong = await this.#compare(planned);
      if (wrong.length === 0 || Date.now() > deadline) return wrong;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async #compare(planned: Partial<Tables>): Promise<string[]> {
    const tables = await (TEST_MODE === 'ipvs' ? readKernelTables : readModeTables)(this.#bed.node(0));
    return KERNEL_TABLES.map((table) => {
      const wanted = (planned[table] ?? []).map(withoutUnread).map(withoutDraining);
      return difference(table, wanted, tables);
    }).filter((text) => text !== undefined);
  }

  async #probe(probes: Probes): Promise<string[]> {
    const wrong: string[] = [];
    for (const probe of probes) {
      const found = 'kind' in probe ? await this.#act(probe) : await this.#ask(probe);
      if (found !== undefined) wrong.push(found);
    }
    return wrong;
  }

  async #ask(probe: Probe): Promise<string | undefined> {
    const deadline = Date.now() + probe.withinMs;
    for (;;) {
      const found = judge(probe, await this.#outcomes(probe), (name) => this.#addresses(name));
      if (found === undefined || Date.now() > deadline) return found;
    }
  }

  async #outcomes({ from, protocol, address, port, sourcePort, expect }: Probe): Promise<readonly Outcome[]> {
    const request = {
      protocol,
      target: { address, port, ...(sourcePort === undefined ? {} : { sourcePort }) },
      timeoutMs: expect.kind === 'silent' ? SILENCE_MS : PROBE_TIMEOUT_MS,
    };
    const severalMayAnswer = expect.kind === 'answered' && expect.by.length > 1;
    return this.#host(from).probeAll(Array<ProbeRequest>(severalMayAnswer ? ATTEMPTS : 2).fill(request), 1);
  }

  async #act(action: Action): Promise<string | undefined> {
    const got = await this.#do(action);
    return got === undefined ? undefined : `${action.text}\n      got ${got}`;
  }

  /** Answers what came instead of what was wanted. */
  async #do(action: Action): Promise<string | undefined> {
    const host = this.#host(action.from);
    switch (action.kind) {
      case 'hold': {
        const connection = await host.hold(action.address, action.port, { timeoutMs: PROBE_TIMEOUT_MS });
        this.#held.set(action.name, connection);
        return otherThan(action.by, connection.first);
      }
      case 'ask': {
        const answer = await this.#held.get(action.name)?.ask(PROBE_TIMEOUT_MS);
        if (answer === undefined) return 'no such connection';
        return action.by === undefined && !answer.ok ? undefined : otherThan(action.by, answer);
      }
      case 'http': {
        const { address, port, status } = action;
        const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}/`;
        const curl = ['curl', '-sg', '-m', '2', '-o', '/dev/null', '-w', '%{http_code}', url];
        const { stdout } = await host.exec(curl, { allowFailure: true });
        return stdout === status ? undefined : stdout;
      }
      case 'run': {
        const { stdout, stderr } = await host.exec(action.argv, { allowFailure: true });
        return stdout.includes(action.wanted) === action.prints ? undefined : `${stdout}${stderr}`;
      }
    }
  }

  #host(name: string): Namespace {
    const [kind, first, second] = name.split('-');
    if (kind === 'client') return this.#bed.client(Number(first));
    return kind === 'node' ? this.#bed.node(Number(first)) : this.#bed.pod(Number(first), Number(second));
  }

  /** Of a node also the gateway of its pods. */
  #addresses(name: string): string[] {
    const { v4, v6: written } = this.#host(name).addresses;
    // As a pod shows it: the plan's addresses have a zero group where `::` would be shorter.
    const v6 = formatIp(address(written));
    const index = /^node-(\d)$/.exec(name)?.[1];
    return index === undefined
      ? [v4, v6]
      : [v4, v6, `10.201.${index}.1`, index === '0' ? 'fd00:201::1' : `fd00:201:0:${index}::1`];
  }
}

function otherThan(by: string | undefined, answer: Outcome): string | undefined {
  if (!answer.ok) return answer.code;
  return answer.answeredBy === by ? undefined : answer.answeredBy;
}

/** `ipvsadm -S` does not print limits, and the daemon does not tell the options of what its engine forwards. */
function withoutUnread(line: string): string {
  return line.replaceAll(TEST_MODE === 'userspace' ? / persistent \d+/g : / \(limit \d+\/\d+\)/g, '');
}

/** Whether a real server still drains depends on old connections: kernel-tables.ts leaves them out as well. */
function withoutDraining(line: string): string {
  const [id = '', servers] = line.split(' -> ');
  if (servers === undefined) return line;
  const left = servers.split(', ').filter((server) => !server.endsWith('(weight 0)'));
  return `${id} -> ${left.length === 0 ? 'none' : left.join(', ')}`;
}

function prefixOf(address: string): number {
  return address.includes(':') ? 128 : 32;
}
