import { setTimeout } from 'node:timers/promises';
import type { TrafficBy, TrafficReply } from '../../explain/replies.ts';
import { ask } from '../ask.ts';
import { askOrRead } from '../ask-or-read.ts';
import { Screen } from '../screen.ts';
import { topLines } from './top-lines.ts';
import { SORTS, type Sort, topReply } from './top-reply.ts';
import { UsageError } from '../usage-error.ts';
import { wholeNumber } from '../whole-number.ts';
import type { Command, Given, Live, Result } from '../command.ts';

const BY: readonly TrafficBy[] = ['service', 'endpoint'];
/** The kernel updates its counters every two seconds: over a shorter interval, a rate would be zero or double. */
const LEAST_INTERVAL_S = 2;
const MOST_INTERVAL_S = 3600;
const DEFAULT_INTERVAL_S = 4;
const MOST_COUNT = 1_000_000;

export const TOP: Command = {
  usage: '[options]',
  summary:
    'the traffic of each Service now, from the counters of IPVS or of userspace mode. On a terminal, refreshes until q or Ctrl-C is ' +
    'pressed; else reads twice, an interval apart, and ends',
  options: {
    by: { hint: BY.join('|'), help: 'what a row is about; service by default', choices: BY },
    sort: {
      hint: 'column',
      help: `${SORTS.join(', ')}; connections (new ones a second) by default`,
      choices: SORTS,
    },
    namespace: { short: 'n', hint: 'name', help: 'only Services of this namespace' },
    interval: { hint: 'seconds', help: `time between two reads, at least 2; ${DEFAULT_INTERVAL_S} by default` },
    count: { hint: 'number', help: 'tables to print; on a terminal without limit by default, else 1' },
  },
  run: async (given, live) => {
    const { by, ...options } = topOptionsOf(given);
    const { namespace } = given.values;
    const query = new URLSearchParams({ by, ...(namespace === undefined ? {} : { namespace }) });
    const asked = (): Promise<TrafficReply> => ask(given.querySocket, `/v1/traffic?${query.toString()}`);
    return askOrRead(
      () => watched(asked, options, given, live),
      (answers) => {
        if (namespace !== undefined)
          throw new UsageError(
            '--namespace needs the daemon, which is not running on this node: the kernel does not know namespaces',
          );
        return watched(() => answers.traffic(by), options, given, live);
      },
    );
  },
};

async function watched(
  read: () => Promise<TrafficReply>,
  { sort, intervalMs, count }: Options & { readonly count?: number },
  { format }: Given,
  live: Live,
): Promise<Result> {
  const onScreen = live.terminal !== undefined && format === 'text' && count === undefined;
  if (!onScreen) return printed(read, { sort, intervalMs, count: count ?? 1 }, live);
  const screen = new Screen(live.terminal);
  try {
    return await shown(read, { sort, intervalMs }, screen);
  } finally {
    screen.close();
  }
}

interface Options {
  readonly sort: Sort;
  readonly intervalMs: number;
}

/** Returns the options that are given. Throws a UsageError. */
export function topOptionsOf({
  values,
}: Pick<Given, 'values'>): Options & { readonly by: TrafficBy; readonly count?: number } {
  const count = values['count'];
  return {
    by: BY.find((by) => by === values['by']) ?? 'service',
    sort: SORTS.find((sort) => sort === values['sort']) ?? 'connections',
    intervalMs:
      1000 *
      wholeNumber('interval', values['interval'] ?? String(DEFAULT_INTERVAL_S), LEAST_INTERVAL_S, MOST_INTERVAL_S),
    ...(count === undefined ? {} : { count: wholeNumber('count', count, 1, MOST_COUNT) }),
  };
}

async function printed(
  read: () => Promise<TrafficReply>,
  { sort, intervalMs, count }: Options & { readonly count: number },
  live: Live,
): Promise<Result> {
  let before = await read();
  for (let left = count; ; left--) {
    await setTimeout(intervalMs);
    const now = await read();
    const reply = topReply(before, now, sort);
    const result = { reply, lines: topLines(reply) };
    if (left === 1) return result;
    await live.show(result);
    before = now;
  }
}

/** Shows the tables on the screen, where the last one stays. So the result has no lines to print. */
async function shown(
  read: () => Promise<TrafficReply>,
  { sort, intervalMs }: Options,
  screen: Screen,
): Promise<Result> {
  let before = await read();
  let reply = topReply(before, before, sort);
  for (;;) {
    screen.show(topLines(reply));
    try {
      await setTimeout(intervalMs, undefined, { signal: screen.ended });
    } catch {
      return { reply, lines: [] };
    }
    const now = await read();
    reply = topReply(before, now, sort);
    before = now;
  }
}
