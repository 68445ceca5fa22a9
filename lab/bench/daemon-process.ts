import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LongProcess } from '../../test/bed/long-process.ts';
import { Namespace } from '../../test/bed/namespace.ts';
import { type DaemonProgram, daemonArgv } from '../../test/support/daemon.ts';
import { imageEnvironment } from '../../test/support/image.ts';
import { ApiProcess, now } from './api-process.ts';
import { type BenchMode, BenchNode } from './bench-node.ts';
import { type ClusterShape, NODE_ADDRESS, NODE_NAME } from './large-cluster.ts';

const FLAGS = ['--cluster-cidr=10.64.0.0/10'];

/** Filling a large table in a slow kernel. */
const FIRST_SYNC_MS = 600_000;
const BARE_MS = 60_000;
/** How often is looked whether something has come. */
const LOOK_MS = 1;

/** A node in a separate network namespace, an API server in it, and the bundled daemon as it is shipped. */
export class DaemonNode implements AsyncDisposable {
  readonly bench: BenchNode;
  readonly namespace: Namespace;
  readonly api: ApiProcess;

  private constructor(bench: BenchNode, namespace: Namespace, api: ApiProcess) {
    this.bench = bench;
    this.namespace = namespace;
    this.api = api;
  }

  static async make(shape: ClusterShape, mode: BenchMode = 'ipvs'): Promise<DaemonNode> {
    // Whatever iptables is asked leaves tables in the namespace: the daemon is to find a fresh one. Nor is it to find
    // the tables of nftables mode, which another program would not understand.
    const bench = await BenchNode.make({ mode, rules: false, prepared: mode === 'ipvs' });
    const namespace = new Namespace(NODE_NAME, bench.netns, { v4: NODE_ADDRESS, v6: '' });
    return new DaemonNode(bench, namespace, await ApiProcess.start(bench.path, shape));
  }

  async start(program?: DaemonProgram): Promise<Started> {
    const flags = [`--kubeconfig=${this.api.kubeconfig}`, ...FLAGS];
    const argv = daemonArgv(this.namespace, flags, this.bench.kernel.mode, program);
    const env = { ...process.env, ...(await imageEnvironment()) };
    const at = now();
    return new Started(await this.namespace.spawn(argv, env), at);
  }

  /** Milliseconds of a Node process that does nothing. */
  async bareStart(): Promise<number> {
    const at = now();
    const nothing = await this.namespace.spawn([process.execPath, '-e', '0']);
    await nothing.ended(BARE_MS);
    return now() - at;
  }

  /** What the daemon counts of itself, by name and labels; empty while it does not listen. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const text = (await this.api.get('http://127.0.0.1:10249/metrics')) ?? '';
    return new Map(
      text.split('\n').flatMap((line) => {
        const [, name, value] = /^([a-z]\S*) (\S+)$/.exec(line) ?? [];
        return name === undefined ? [] : [[name, Number(value)]];
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.namespace[Symbol.asyncDispose]();
    await this.api[Symbol.asyncDispose]();
    await this.bench[Symbol.asyncDispose]();
  }
}

/** A daemon that was just started. */
export class Started {
  readonly process: LongProcess;
  /** By `now()`. */
  readonly at: number;

  constructor(process: LongProcess, at: number) {
    this.process = process;
    this.at = at;
  }

  /** Milliseconds from the start to the end of the first sync. */
  async firstSync(): Promise<number> {
    await until(() => {
      if (this.process.exit !== undefined) throw new Error(`the daemon has ended: ${this.process.output}`);
      return this.process.output.includes('initial sync complete');
    });
    return now() - this.at;
  }
}

/** Looks again and again, a millisecond apart; throws when it takes as long as no first sync may take. */
export async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  const end = now() + FIRST_SYNC_MS;
  while (!(await done())) {
    if (now() > end) throw new Error('waited too long');
    await sleep(LOOK_MS);
  }
}

/** To be loaded into a daemon with --import: says on SIGUSR2 how long its event loop was held up. */
export const LOOP_PRELOAD = path.resolve('lab/bench/loop-preload.ts');
