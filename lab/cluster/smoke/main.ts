// `make smoke`: a dry run of all manifests on the API server, a few upstream specs and a rolling update under traffic, in a
// cluster of its own with the restricted overlay. It prints a line for each check and writes build/test/cluster.json, from which scripts/count.ts takes the totals and the exit status.
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../../test/bed/command.ts';
import { buildPrograms } from '../build.ts';
import { clusterDown, clusterUp } from '../cluster.ts';
import { ComponentError } from '../component.ts';
import { runSpecs } from '../e2e/run-specs.ts';
import { PROJECT, cacheOf, clusterFolder } from '../folders.ts';
import { kubectlFor } from '../kubectl.ts';
import { SPEC_PROGRAMS } from '../programs.ts';
import { type Settings, SettingsError, parseSettings } from '../settings.ts';
import { type ClusterState, readState } from '../state-file.ts';
import { runTrial } from '../trial/run-trial.ts';
import { daemonUpdate } from '../trial/trials/daemon-restart.ts';
import { DRY_RUN, acceptedCheck, allManifests } from './accepted.ts';
import { type Check, checkLines, checkReport, specChecks, trialCheck } from './check.ts';
import { fleetChecks } from './fleet.ts';
import { createMonitoringTypes } from './monitoring-types.ts';
import { SMOKE_SPECS, focusOf } from './specs.ts';

const REPORT = path.join(PROJECT, 'build/test/cluster.json');
const LOG_LINES = 60;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Every check, also if the cluster does not start: that is one which failed. */
async function smoke(settings: Settings): Promise<readonly Check[]> {
  const folder = clusterFolder(settings.cluster);
  try {
    await buildPrograms(settings.kubernetes, cacheOf(settings.kubernetes), SPEC_PROGRAMS, say);
    await clusterUp(settings, say);
  } catch (error) {
    // A ComponentError has the ends of the logs that matter.
    if (!(error instanceof ComponentError || error instanceof SettingsError)) await sayLogs(folder.logs);
    return [{ name: 'a cluster starts', failure: error instanceof Error ? error.message : String(error) }];
  }
  try {
    const state = await readState(folder.state);
    if (state === undefined) throw new Error('the cluster has ended');
    const before = [...(await accepted(state)), ...(await fleetChecks(state))];
    return [...before, ...(await specs(state)), await update(state)];
  } finally {
    await clusterDown(settings.cluster);
  }
}

/** What users would apply, as the API server of a real cluster sees it. */
async function accepted(state: ClusterState): Promise<readonly Check[]> {
  const helm = (await runCommand(['scripts/go-tool.sh', 'helm'], { timeoutMs: 1_200_000, allowFailure: true })).stdout;
  const checks: Check[] = [];
  await createMonitoringTypes(kubectlFor(state)).catch((error: unknown) => {
    checks.push({ name: 'the API server knows monitors and alerts', failure: String(error) });
  });
  for (const { name, argv } of allManifests(state.kubectl, helm.trim())) {
    try {
      const { stdout: input } = await runCommand(argv);
      const asked = [...kubectlFor(state), ...DRY_RUN];
      checks.push(acceptedCheck(name, await runCommand(asked, { input, timeoutMs: 60_000, allowFailure: true })));
    } catch (error) {
      checks.push({ name, failure: String(error) });
    }
  }
  return checks;
}

async function specs(state: ClusterState): Promise<readonly Check[]> {
  const log = path.join(PROJECT, 'build/e2e/smoke/log.txt');
  say(`running ${SMOKE_SPECS.length} upstream specs; their log is ${path.relative(PROJECT, log)}`);
  const focus = focusOf(SMOKE_SPECS);
  const suite = await runSpecs(state, 'ours', { focus, procs: 2, timeout: '15m' }, 'smoke').catch((error: unknown) => {
    say(String(error));
    return { results: [] };
  });
  const checks = specChecks(SMOKE_SPECS, suite.results);
  if (checks.some(({ failure }) => failure !== undefined)) await sayEnd(log, LOG_LINES);
  return checks;
}

/** A rolling update of ours while traffic goes on. */
async function update(state: ClusterState): Promise<Check> {
  try {
    return trialCheck(await runTrial(daemonUpdate, state, 'ours', say));
  } catch (error) {
    return { name: daemonUpdate.what, failure: String(error) };
  }
}

async function sayLogs(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => []);
  for (const name of names.toSorted()) if (name.endsWith('.log')) await sayEnd(path.join(folder, name), 8);
}

async function sayEnd(file: string, count: number): Promise<void> {
  const text = (await readFile(file, 'utf8').catch(() => '')).trimEnd();
  // Ginkgo has a mark for each spec that it leaves out: thousands in a line.
  const lines = text.split('\n').filter((line) => !/^[S•]{80}/.test(line));
  if (text !== '') say(`the end of ${path.relative(PROJECT, file)}:\n${lines.slice(-count).join('\n')}`);
}

const begin = performance.now();
await rm(REPORT, { force: true });
const arguments_ = ['CLUSTER=smoke', 'OVERLAY=restricted', ...process.argv.slice(2)];
const checks = await smoke(parseSettings(arguments_));
for (const line of checkLines(checks)) say(line);
say(`the smoke test of a cluster took ${Math.round((performance.now() - begin) / 1000)} s`);
await mkdir(path.dirname(REPORT), { recursive: true });
await writeFile(REPORT, JSON.stringify(checkReport(checks)));
process.exit();
