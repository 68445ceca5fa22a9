import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { ClientLine, Counts, FailureLine, ResumedLine, SlowLine, TickLine } from './lines.ts';

/** Failures are rare; if they are not, the first ones say enough. */
const MAX_LINES = 10_000;

/** Counts what happens and appends it to the output file. It keeps no line. */
export class Report {
  readonly #output: string;
  readonly #counts: { -readonly [name in keyof Counts]: number } = {
    asked: 0,
    answered: 0,
    failed: 0,
    slow: 0,
    cut: 0,
    longAnswers: 0,
    unlisted: 0,
  };
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });
  #servers = new Map<string, Set<string>>();
  #lines = 0;

  constructor(output: string) {
    this.#output = output;
    this.#delay.enable();
  }

  asked(): void {
    this.#counts.asked++;
  }

  answered(server: string, target: string): void {
    this.#counts.answered++;
    this.#servers.set(server, (this.#servers.get(server) ?? new Set()).add(target));
  }

  answeredLong(): void {
    this.#counts.longAnswers++;
  }

  failure(line: Omit<FailureLine, 'event'>): void {
    this.#counts[line.cut ? 'cut' : 'failed']++;
    this.#list({ event: 'failure', ...line });
  }

  slow(line: Omit<SlowLine, 'event'>): void {
    this.#counts.slow++;
    this.#list({ event: 'slow', ...line });
  }

  resumed(line: Omit<ResumedLine, 'event'>): void {
    this.#list({ event: 'resumed', ...line });
  }

  tick(event: TickLine['event'], long: Readonly<Record<string, number>>): void {
    const lagMs = Math.round(this.#delay.max / 1e6);
    this.#delay.reset();
    const servers = Object.fromEntries([...this.#servers].map(([server, targets]) => [server, [...targets]]));
    this.#servers = new Map();
    this.#write({ event, at: Date.now(), counts: { ...this.#counts }, lagMs, servers, long });
  }

  #list(line: ClientLine): void {
    if (this.#lines++ < MAX_LINES) this.#write(line);
    else this.#counts.unlisted++;
  }

  #write(line: ClientLine): void {
    appendFileSync(this.#output, `${JSON.stringify(line)}\n`);
  }
}
