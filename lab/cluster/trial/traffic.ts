import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CLIENT_PROGRAM } from './client-pod.ts';
import type { ClientLine, ClientOrder, Counts, ResumedLine, Target, TickLine } from './client/lines.ts';
import type { Failure, Slow } from './judge.ts';
import { LineFollower } from './line-follower.ts';

/** Per second, of both clients together. */
const NEW_CONNECTIONS = 50;
const LONG_CONNECTIONS = 20;
const CLIENTS = 2;

/** What each client does. */
export const SHARE = {
  newPerSecond: NEW_CONNECTIONS / CLIENTS,
  longConnections: LONG_CONNECTIONS / CLIENTS,
};

export interface Resumed extends ResumedLine {
  readonly client: string;
}

/** What one client has written so far. */
class Follower {
  readonly client: string;
  readonly folder: string;
  readonly #lines: LineFollower<ClientLine>;
  readonly ticks: TickLine[] = [];

  constructor(client: string, folder: string) {
    this.client = client;
    this.folder = folder;
    this.#lines = new LineFollower(path.join(folder, 'lines'));
  }

  get last(): TickLine | undefined {
    return this.ticks.at(-1);
  }

  async read(traffic: { failures: Failure[]; slow: Slow[]; resumed: Resumed[] }): Promise<void> {
    for (const line of await this.#lines.read()) {
      if (line.event === 'failure') traffic.failures.push({ ...line, client: this.client });
      else if (line.event === 'slow') traffic.slow.push({ ...line, client: this.client });
      else if (line.event === 'resumed') traffic.resumed.push({ ...line, client: this.client });
      else this.ticks.push(line);
    }
  }
}

const NONE: Counts = { asked: 0, answered: 0, failed: 0, slow: 0, cut: 0, longAnswers: 0, unlisted: 0 };

/** The connections of two clients, one in a Pod and one on the host, and what came of them so far. */
export class Traffic {
  readonly targets: readonly Target[];
  readonly #followers: readonly Follower[];
  readonly #host: ChildProcess;
  readonly #reading: NodeJS.Timeout;
  readonly #seen = { failures: [] as Failure[], slow: [] as Slow[], resumed: [] as Resumed[] };
  #busy: Promise<void> = Promise.resolve();

  /**
   * Starts the client on the host. The one in the Pod must have been started with the same targets.
   *
   * @param netns the network namespace for the client on the host
   * @param folders where each client writes its lines and looks for the file that stops it
   */
  constructor(netns: string, targets: readonly Target[], folders: { readonly pod: string; readonly host: string }) {
    this.targets = targets;
    this.#followers = [new Follower('Pod', folders.pod), new Follower('host', folders.host)];
    const order: ClientOrder = {
      client: 'host',
      output: path.join(folders.host, 'lines'),
      stopFile: path.join(folders.host, 'stop'),
      targets,
      ...SHARE,
    };
    const errors = openSync(path.join(folders.host, 'errors'), 'a');
    const argv = [`--net=${netns}`, '--', process.execPath, CLIENT_PROGRAM, JSON.stringify(order)];
    this.#host = spawn('nsenter', argv, { stdio: ['ignore', errors, errors] });
    this.#reading = setInterval(() => {
      this.#busy = this.#busy.then(() => this.#read());
    }, 250);
  }

  /** Failures that began in a time: milliseconds since 1970. */
  failures(from = 0, to = Infinity): readonly Failure[] {
    return this.#seen.failures.filter(({ at }) => at >= from && at < to);
  }

  slow(from = 0, to = Infinity): readonly Slow[] {
    return this.#seen.slow.filter(({ at }) => at >= from && at < to);
  }

  /** Silent connections that answered after all. */
  resumed(): readonly Resumed[] {
    return this.#seen.resumed;
  }

  /** The lines that each client wrote each second, by client. */
  ticks(): Readonly<Record<string, readonly TickLine[]>> {
    return Object.fromEntries(this.#followers.map(({ client, ticks }) => [client, ticks]));
  }

  /** Since the start, of both clients. */
  counts(): Counts {
    const sum = { ...NONE };
    for (const { last } of this.#followers) {
      for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += last?.counts[name] ?? 0;
    }
    return sum;
  }

  /**
   * Waits until both clients have had a clean time: answers, all long connections open, nothing failed, nothing cut, and
   * nothing slow: on a machine that is too busy, connections fail whatever a trial does.
   * Throws if that takes longer than `limit` seconds.
   */
  async awaitClean(seconds: number, limit: number): Promise<void> {
    const deadline = performance.now() + limit * 1000;
    while (!this.#followers.every(({ ticks }) => isClean(ticks, seconds))) {
      if (performance.now() > deadline) {
        const last = this.#followers.map(({ client, last }) => `${client}: ${JSON.stringify(last ?? 'nothing')}`);
        const examples = this.#seen.failures.slice(-5).map((failure) => JSON.stringify(failure));
        throw new Error(`no clean traffic for ${seconds} s within ${limit} s:\n${[...last, ...examples].join('\n')}`);
      }
      await sleep(250);
    }
  }

  /** Stops the clients. Returns those that did not write their last line. */
  async stop(): Promise<readonly string[]> {
    for (const { folder } of this.#followers) writeFileSync(path.join(folder, 'stop'), '');
    const deadline = performance.now() + 30_000;
    const unfinished = (): readonly string[] =>
      this.#followers.filter(({ last }) => last?.event !== 'end').map(({ client }) => client);
    while (unfinished().length > 0 && performance.now() < deadline) await sleep(250);
    await this.kill();
    return unfinished();
  }

  /** Ends the client on the host at once; that in the Pod ends with its Pod. */
  async kill(): Promise<void> {
    clearInterval(this.#reading);
    await this.#busy;
    await this.#read();
    if (this.#host.exitCode !== null || this.#host.signalCode !== null) return;
    this.#host.kill('SIGKILL');
    await once(this.#host, 'exit');
  }

  async #read(): Promise<void> {
    for (const follower of this.#followers) await follower.read(this.#seen);
  }
}

function isClean(ticks: readonly TickLine[], seconds: number): boolean {
  const last = ticks.at(-1);
  const first = ticks.at(-1 - seconds);
  if (last === undefined || first === undefined) return false;
  const open = Object.values(last.long).reduce((sum, count) => sum + count, 0);
  return (
    open === SHARE.longConnections &&
    last.counts.answered > first.counts.answered &&
    last.counts.failed === first.counts.failed &&
    last.counts.cut === first.counts.cut &&
    last.counts.slow === first.counts.slow
  );
}
