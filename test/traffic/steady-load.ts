import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadResult, ProbeRequest, Transport } from '../bed/agent-protocol.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';

/** Where requests go to. */
export type Way = readonly [name: string, protocol: Transport, address: string, port: number];

/**
 * TEST_LOAD_REQUESTS: a change under load lasts until so many requests were sent, for example 100000. They come from
 * several clients, as fast as the kernel answers them. By default, requests are sent at an even rate until the change is
 * over.
 */
const REQUESTS = Number(process.env['TEST_LOAD_REQUESTS'] ?? 0);

/**
 * The kernel remembers each connection for two minutes after its end. With its own limit (65,536 on a kernel with 3 GiB),
 * its table is full before 100,000 requests were sent in that time, and it drops packets of any proxy.
 */
const CONNTRACK_MAX = 1_048_576;

/**
 * Each client has 19,000 ports (source-ports.ts) and uses them in turn. With eight, at least 150,000 requests lie between two
 * uses of a port, which is more than four minutes: IPVS and conntrack remember a connection for two after its end.
 */
export const LOAD_CLIENTS = REQUESTS > 0 ? 8 : 1;
/** Few, so that the daemon has processor time on a slow machine. */
const PER_SECOND = 6;
const PART_MS = 4_000;
const TIMEOUT_MS = 4_000;
/** Of each client, if requests are sent as fast as they are answered. */
const IN_FLIGHT = 3;
const PROBES_OF_PART = 100;
const REPORT_EVERY = 5_000;

/** Enough requests that each way has some of them before, during and after the change. */
export const LEAST_REQUESTS = Math.max(REQUESTS, (PER_SECOND / 2) * (PART_MS / 1_000));

/** What tests wait longer than without a number of requests. */
export const LOAD_TIME_MS = REQUESTS * 20;

export interface LoadReport {
  readonly sent: number;
  /** "way: code" and how often; empty if every request was answered. */
  readonly failures: Readonly<Record<string, number>>;
}

/** Sends requests through every way, each on a new connection, while `change` runs, and at least so many. */
export async function underLoad(
  clients: readonly Namespace[],
  ways: readonly Way[],
  change: () => Promise<void>,
  least = LEAST_REQUESTS,
): Promise<LoadReport> {
  if (REQUESTS > 0) await writeFile('/proc/sys/net/netfilter/nf_conntrack_max', String(CONNTRACK_MAX));
  const load = new SteadyLoad(ways);
  let changed = false;
  const all = Promise.all(clients.map((client) => load.run(client, () => changed && load.sent >= least)));
  try {
    await change();
  } finally {
    changed = true;
  }
  await all;
  load.report();
  return load;
}

class SteadyLoad implements LoadReport {
  readonly failures: Record<string, number> = {};
  sent = 0;
  readonly #ways: readonly Way[];

  constructor(ways: readonly Way[]) {
    this.#ways = ways;
  }

  report(): void {
    process.stdout.write(`${this.sent} requests, failed: ${JSON.stringify(this.failures)}\n`);
  }

  /** Two lanes half a part apart, so that one always sends. */
  async run(client: Namespace, isOver: () => boolean): Promise<void> {
    if (REQUESTS > 0) {
      while (!isOver()) await this.#part(client);
      return;
    }
    await Promise.all([this.#lane(client, isOver), sleep(PART_MS / 2).then(() => this.#lane(client, isOver))]);
  }

  async #lane(client: Namespace, isOver: () => boolean): Promise<void> {
    const shape = { perSecond: PER_SECOND / 2, durationMs: PART_MS, timeoutMs: TIMEOUT_MS };
    while (!isOver()) {
      await Promise.all(
        this.#ways.map(async ([name, protocol, address, port]) => {
          this.#count(name, await client.load(protocol, address, port, shape));
        }),
      );
    }
  }

  /** Sends requests through all ways in turn, a few at a time. */
  async #part(client: Namespace): Promise<void> {
    const ways = Array.from({ length: PROBES_OF_PART }, (_, index) => this.#ways[index % this.#ways.length]).flatMap(
      (way) => (way === undefined ? [] : [way]),
    );
    const probes = ways.map(([, protocol, address, port]): ProbeRequest => {
      return { protocol, target: { address, port }, timeoutMs: patient(TIMEOUT_MS) };
    });
    const results = await client.probeAll(probes, IN_FLIGHT);
    for (const [index, result] of results.entries()) {
      const failures = result.ok ? {} : { [result.code]: 1 };
      this.#count(ways[index]?.[0] ?? '', { sent: 1, failures });
    }
  }

  #count(way: string, { sent, failures }: Pick<LoadResult, 'sent' | 'failures'>): void {
    const before = this.sent;
    this.sent += sent;
    if (REQUESTS > 0 && Math.floor(before / REPORT_EVERY) < Math.floor(this.sent / REPORT_EVERY)) this.report();
    for (const [code, count] of Object.entries(failures)) {
      const key = `${way}: ${code}`;
      this.failures[key] = (this.failures[key] ?? 0) + count;
    }
  }
}
