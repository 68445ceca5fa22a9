// `make judge`: upstream's own proxiers beside ours, on random histories of a cluster. Exits with 1 if something differs that
// is not an intended difference.
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorText } from '../../src/base/text/error-text.ts';
import type { Case } from './case/case.ts';
import { makeCase } from './case/make-case.ts';
import type { JudgedMode, Mismatch } from './compare.ts';
import { ipvsMode } from './ipvs/mode.ts';
import { type Verdict, judge, kindOf, mismatchLines } from './judge.ts';
import { checkReport } from '../cluster/smoke/check.ts';
import { type Options, parseOptions } from './options.ts';
import { iptablesMode, nftablesMode, userspaceMode } from './rules/mode.ts';
import { shrink } from './shrink.ts';
import { Tally } from './tally.ts';
import { Upstream, buildUpstream, kubernetesVersion } from './upstream.ts';

const BUILD = path.resolve(import.meta.dirname, '../../build');
const FOLDER = path.join(BUILD, 'judge');

/** So many failed cases are printed. Each kind of mismatch is counted. */
const PRINTED = 10;
/** Milliseconds between two lines that say how far it is. */
const PROGRESS_MS = 60_000;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The mode of kube-proxy that a mode of ours is judged by. */
function playedBy(mode: Options['mode']): Case['mode'] {
  return mode === 'userspace' ? 'nftables' : mode;
}

async function run<State>(mode: JudgedMode<State>, options: Options): Promise<boolean> {
  say(`building kube-proxy's proxiers, Kubernetes ${await kubernetesVersion()}`);
  const program = await buildUpstream();
  await using upstream = new Upstream<State>(program);
  const tally = new Tally();
  const { only, cases } = options;
  const ids = only === undefined ? Array.from({ length: cases }, (_, id) => id) : [only];
  let told = performance.now();
  for (const id of ids) {
    if (performance.now() - told > PROGRESS_MS) {
      told = performance.now();
      say(`${id} of ${cases} cases, ${tally.failed} with unexplained differences`);
    }
    const given = makeCase(playedBy(options.mode), options.seed, id);
    const verdict = await judge(mode, upstream, given);
    tally.add(given, verdict);
    if (verdict.unexplained.length > 0 && tally.failed <= PRINTED) await report(given, verdict, options);
  }
  if (only !== undefined && tally.failed > 0) await reportSmallest(mode, upstream, options, only);
  for (const line of tally.lines()) say(line);
  await writeReport(options.mode, tally);
  return tally.failed === 0;
}

async function report(given: Case, { unexplained }: Verdict, { mode, seed }: Options): Promise<void> {
  say(`case ${given.id} differs: make judge MODE=${mode} SEED=${seed} ONLY=${given.id}`);
  for (const mismatch of firstOfKinds(unexplained)) for (const line of mismatchLines(mismatch)) say(line);
  await writeCase(`${mode}-${seed}-${given.id}.json`, given);
}

function firstOfKinds(found: readonly Mismatch[]): readonly Mismatch[] {
  return [...Map.groupBy(found, kindOf).values()].flatMap((each) => each.slice(0, 1));
}

/** Prints a small case with the same first kind of mismatch. */
async function reportSmallest<State>(
  mode: JudgedMode<State>,
  upstream: Upstream<State>,
  options: Options,
  id: number,
): Promise<void> {
  const given = makeCase(playedBy(options.mode), options.seed, id);
  const [first] = (await judge(mode, upstream, given)).unexplained;
  if (first === undefined) return;
  const kind = kindOf(first);
  const sameKind = async (candidate: Case): Promise<readonly Mismatch[]> => {
    const { unexplained } = await judge(mode, upstream, candidate).catch(() => ({ unexplained: [] }));
    return unexplained.filter((each) => kindOf(each) === kind);
  };
  const smallest = await shrink(given, async (candidate) => (await sameKind(candidate)).length > 0);
  say(`the smallest case with "${kind}":`);
  for (const mismatch of await sameKind(smallest)) for (const line of mismatchLines(mismatch)) say(line);
  say(JSON.stringify(smallest, undefined, 2));
  await writeCase(`${options.mode}-${options.seed}-${id}-small.json`, smallest);
}

async function writeCase(name: string, given: Case): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  await writeFile(path.join(FOLDER, name), `${JSON.stringify(given, undefined, 2)}\n`);
}

/** One check for scripts/count.ts, however many cases it has. */
async function writeReport(mode: Options['mode'], { failed }: Tally): Promise<void> {
  const name = `${mode} mode, beside kube-proxy's own code`;
  const check = failed === 0 ? { name } : { name, failure: `${failed} cases differ` };
  await mkdir(path.join(BUILD, 'test'), { recursive: true });
  await writeFile(path.join(BUILD, 'test', `judge-${mode}.json`), JSON.stringify(checkReport([check])));
}

/** Judges the mode of the options. */
async function runMode(options: Options): Promise<boolean> {
  switch (options.mode) {
    case 'ipvs':
      return await run(ipvsMode, options);
    case 'nftables':
      return await run(nftablesMode, options);
    case 'iptables':
      return await run(iptablesMode, options);
    case 'userspace':
      return await run(userspaceMode, options);
  }
}

try {
  process.exitCode = (await runMode(parseOptions(process.argv.slice(2)))) ? 0 : 1;
} catch (error) {
  process.stderr.write(`make judge: ${errorText(error)}\n`);
  process.exitCode = 1;
}
