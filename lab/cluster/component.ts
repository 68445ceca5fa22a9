import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inside } from './keeper.ts';
import type { ComponentState, ProcessMark } from './state-file.ts';

/** A part of the cluster that does not work, with the end of its log. */
export class ComponentError extends Error {
  override readonly name = 'ComponentError';
}

/** What can be waited for, and blamed: a component, or a workload on a node that may end. */
export interface Part {
  readonly name: string;
  readonly logs: readonly string[];
  readonly endFile: string;
  /** Writes the logs that must be asked for. */
  inspect?(): Promise<void>;
}

/** Leaves the program in the namespaces, with a parent that writes down how it ends. */
const LAUNCH = `pid=$1 end=$2; shift 2; rm -f "$end"
{ setsid sh -c 'echo $$ >"$0"; exec "$@"' "$pid" "$@"; echo "status $?" >"$end"; } &`;

/**
 * Starts a program in the namespaces of the keeper; it outlives this one. Its output is appended to LOGS/NAME.log.
 * `moreLogs` are files that it writes itself.
 */
export async function startComponent(
  keeper: ProcessMark,
  logs: string,
  name: string,
  argv: readonly string[],
  moreLogs: readonly string[] = [],
): Promise<ComponentState> {
  const file = (kind: string): string => path.join(logs, `${name}.${kind}`);
  const component = {
    name,
    argv,
    pidFile: file('pid'),
    endFile: file('end'),
    logs: [file('log'), ...moreLogs],
  } as const;
  await launch(keeper, component);
  return component;
}

/** Starts the process of a component that does not run. */
export async function launch(keeper: ProcessMark, { argv, pidFile, endFile, logs }: ComponentState): Promise<void> {
  await using output = await open(logs[0], 'a');
  const [program = '', ...args] = inside(keeper, ['sh', '-c', LAUNCH, 'launch', pidFile, endFile, ...argv]);
  // In a session of its own: what ends the group of this program must not end the parent that waits there.
  await once(spawn(program, args, { detached: true, stdio: ['ignore', output.fd, output.fd] }), 'exit');
}

/** How the component ended; undefined while it runs. */
export async function endOf({ endFile }: Pick<Part, 'endFile'>): Promise<string | undefined> {
  const text = await readFile(endFile, 'utf8').catch(() => undefined);
  return text?.trim();
}

/**
 * Asks every half second until the answer is that all is well (undefined), for `seconds` at most. Other answers say what
 * is missing. Throws a ComponentError that blames `component` when it ends or the time is over.
 */
export async function until(
  component: Part,
  seconds: number,
  missing: () => Promise<string | undefined>,
): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const what = await missing();
    if (what === undefined) return;
    const end = await endOf(component);
    if (end !== undefined) throw await failure(component, `ended with ${end}`);
    if (performance.now() > deadline) throw await failure(component, `${what} after ${seconds} s`);
    await sleep(500);
  }
}

/** An error of this component, with the last lines of its logs. */
async function failure(component: Part, what: string): Promise<ComponentError> {
  await component.inspect?.();
  const ends: string[] = [];
  for (const log of component.logs) {
    const text = (await readFile(log, 'utf8').catch(() => '')).trimEnd();
    if (text !== '') ends.push(`the end of ${log}:\n${text.split('\n').slice(-8).join('\n')}`);
  }
  return new ComponentError([`${component.name}: ${what}`, ...ends].join('\n'));
}
