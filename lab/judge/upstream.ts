import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdir, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { runCommand } from '../../test/bed/command.ts';
import { PROJECT } from '../cluster/folders.ts';
import { goEnvironment, goMissing } from '../cluster/go.ts';
import type { Case } from './case/case.ts';

const SOURCE = path.join(import.meta.dirname, 'upstream');
const PROGRAM = path.join(PROJECT, 'build/judge/upstream');

/** The first build compiles what kube-proxy links: minutes on idle cores. */
const BUILD_TIMEOUT_MS = 3_600_000;

/** Each proxier leaves a goroutine behind, so a process plays so many cases only. */
const CASES_OF_A_PROCESS = 250;

/** What upstream answers: each different result has the states after each step. */
export interface Answer<State> {
  readonly id: number;
  readonly results?: readonly (readonly State[])[];
  readonly error?: string;
}

/** The version of Kubernetes that the program is built from. */
export async function kubernetesVersion(): Promise<string> {
  const text = await readFile(path.join(SOURCE, 'go.mod'), 'utf8');
  const version = /^\s*(?:require )?k8s\.io\/kubernetes v(\S+)$/m.exec(text)?.[1];
  if (version === undefined) throw new Error('upstream/go.mod does not require k8s.io/kubernetes');
  return version;
}

/** Builds the program with upstream's proxiers and returns its path. Throws if Go is missing. */
export async function buildUpstream(): Promise<string> {
  const why = await goMissing();
  if (why !== undefined) throw new Error(why);
  await mkdir(path.dirname(PROGRAM), { recursive: true });
  // The flags with which the cluster's programs are built: they share Go's cache of packages.
  const env = { ...goEnvironment(), CGO_ENABLED: '0', GOFLAGS: '-mod=readonly -buildvcs=false' };
  // Another run may build it at the same time.
  const built = `${PROGRAM}.${process.pid}`;
  const argv = ['go', '-C', SOURCE, 'build', '-trimpath', '-ldflags=-s -w', '-o', built, '.'];
  await runCommand(argv, { timeoutMs: BUILD_TIMEOUT_MS, env });
  // Another run may start it at any time.
  await rename(built, PROGRAM);
  return PROGRAM;
}

/** Upstream's proxiers, asked one case after the other. */
export class Upstream<State> implements AsyncDisposable {
  readonly #program: string;
  #child: ChildProcessWithoutNullStreams | undefined;
  #lines: AsyncIterator<string> | undefined;
  #left = 0;

  constructor(program: string) {
    this.#program = program;
  }

  /** Plays a case. Throws if upstream cannot. */
  async play(given: Case): Promise<readonly (readonly State[])[]> {
    if (this.#left === 0) await this.#restart();
    this.#left--;
    this.#child?.stdin.write(`${JSON.stringify(given)}\n`);
    const line = await this.#lines?.next();
    if (line === undefined || line.done === true) throw new Error(`upstream ended at case ${given.id}`);
    const { results, error } = JSON.parse(line.value) as Answer<State>;
    if (results === undefined) throw new Error(`upstream cannot play case ${given.id}: ${error}`);
    return results;
  }

  async #restart(): Promise<void> {
    await this[Symbol.asyncDispose]();
    const child = spawn(this.#program, { stdio: ['pipe', 'pipe', 'pipe'] });
    child.stderr.pipe(process.stderr);
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.#left = CASES_OF_A_PROCESS;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    const closed = new Promise((resolve) => child.once('close', resolve));
    child.stdin.end();
    await closed;
  }
}
