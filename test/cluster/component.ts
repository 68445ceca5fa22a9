import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inside } from './keeper.ts';
import type { ProcessMark } from './state-file.ts';

/** A part of the cluster that does not work, with the end of its log. */
export class ComponentError extends Error {
  override readonly name = 'ComponentError';
}

/** A long process in the namespaces of the cluster. It outlives this program. */
export interface Component {
  readonly name: string;
  /** Files that say what went wrong; those that exist. */
  readonly logs: readonly string[];
  /** Exists when the process has ended, and says how. */
  readonly endFile: string;
  /** Writes the logs that must be asked for. */
  inspect?(): Promise<void>;
}

/** Leaves the program in the namespaces, with a parent that writes down how it ends. */
const LAUNCH = 'end=$1; shift; { setsid "$@"; echo "status $?" >"$end"; } &';

/**
 * Starts a program in the namespaces of the keeper. Its output is appended to LOGS/NAME.log. `moreLogs` are files that it
 * writes itself.
 */
export async function startComponent(
  keeper: ProcessMark,
  logs: string,
  name: string,
  argv: readonly string[],
  moreLogs: readonly string[] = [],
): Promise<Component> {
  const log = path.join(logs, `${name}.log`);
  const endFile = path.join(logs, `${name}.end`);
  await using output = await open(log, 'a');
  const [program = '', ...args] = inside(keeper, ['sh', '-c', LAUNCH, 'launch', endFile, ...argv]);
  const launch = spawn(program, args, { stdio: ['ignore', output.fd, output.fd] });
  await once(launch, 'exit');
  return { name, logs: [log, ...moreLogs], endFile };
}

/** How the component ended; undefined while it runs. */
async function endOf({ endFile }: Component): Promise<string | undefined> {
  const text = await readFile(endFile, 'utf8').catch(() => undefined);
  return text?.trim();
}

/**
 * Asks every half second until the answer is that all is well (undefined), for `seconds` at most. Other answers say what
 * is missing. Throws a ComponentError that blames `component` when it ends or the time is over.
 */
export async function until(
  component: Component,
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
async function failure(component: Component, what: string): Promise<ComponentError> {
  await component.inspect?.();
  const ends: string[] = [];
  for (const log of component.logs) {
    const text = (await readFile(log, 'utf8').catch(() => '')).trimEnd();
    if (text !== '') ends.push(`the end of ${log}:\n${text.split('\n').slice(-8).join('\n')}`);
  }
  return new ComponentError([`${component.name}: ${what}`, ...ends].join('\n'));
}
