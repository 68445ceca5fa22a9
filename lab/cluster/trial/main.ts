// `make trial`: does something to a cluster of `make cluster` while traffic goes on, and updates lab/results/trials.json and
// lab/results/trials.md. `node lab/cluster/trial/main.ts TRIAL=daemon-restart`; ../settings.ts has the other settings.
import { CommandError } from '../../../test/bed/command.ts';
import { ComponentError } from '../component.ts';
import { type E2eProxy, isOurs } from '../e2e/results.ts';
import { servingProxy } from '../e2e/run-specs.ts';
import { SettingsError, parseSettings } from '../settings.ts';
import type { ClusterState } from '../state-file.ts';
import { useCluster } from '../use-cluster.ts';
import { publishTrials, readTrials } from './files.ts';
import { TRIALS } from './list.ts';
import { type TrialResult, addTrial } from './results.ts';
import { runTrial } from './run-trial.ts';
import { TrialSettingsError, groupBySettings, parseTrialSettings } from './settings.ts';
import type { Trial } from './trial.ts';

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs a trial. Returns whether it holds. */
async function runOne(trial: Trial, state: ClusterState, proxy: E2eProxy): Promise<boolean> {
  say(`trial ${trial.name} with ${proxy}: ${trial.what}`);
  const result = await runTrial(trial, state, proxy, say);
  publishTrials(addTrial(readTrials(), result));
  say(summary(result));
  return !isOurs(result.proxy) || result.wrong.length === 0;
}

function summary({ trial, proxy, asked, failed, cut, slow, allowed, wrong }: TrialResult): string {
  const expected = Object.entries(allowed).map(([because, count]) => `${count} allowed (${because})`);
  const counts = [`${asked} asked`, `${failed} failed`, `${cut} cut`, `${slow} over 1 s`, ...expected].join(', ');
  const verdict = wrong.length === 0 ? 'holds' : `DOES NOT HOLD: ${wrong.join('; ')}`;
  return `trial ${trial} with ${proxy}: ${counts}: ${verdict}`;
}

/** Returns the names of the trials that do not hold. */
async function runGroup(
  trials: readonly Trial[],
  cluster: readonly string[],
  all: boolean,
): Promise<readonly string[]> {
  const [{ settings = [] } = {}] = trials;
  return useCluster(parseSettings([...cluster, ...settings]), say, async (state) => {
    const failing: string[] = [];
    for (const trial of trials) {
      const proxy = await servingProxy(state);
      if (proxy !== undefined && trial.proxies.includes(proxy)) {
        if (!(await runOne(trial, state, proxy))) failing.push(trial.name);
      } else if (all) {
        say(`trial ${trial.name}: left out, because it needs ${trial.proxies.join(' or ')}`);
      } else {
        throw new TrialSettingsError(
          `${trial.name} needs ${trial.proxies.join(' or ')}, and the cluster has ${proxy ?? 'none of them'}: set PROXY=`,
        );
      }
    }
    return failing;
  });
}

try {
  const { trials, cluster } = parseTrialSettings(process.argv.slice(2), TRIALS);
  const failing: string[] = [];
  for (const group of groupBySettings(trials)) failing.push(...(await runGroup(group, cluster, trials.length > 1)));
  if (failing.length > 0) {
    say(`trials that do not hold: ${failing.join(', ')}`);
    process.exitCode = 1;
  }
} catch (error) {
  const expected = [SettingsError, TrialSettingsError, ComponentError, CommandError].some(
    (type) => error instanceof type,
  );
  if (!(error instanceof Error && expected)) throw error;
  process.stderr.write(`make trial: ${error.message}\n`);
  process.exitCode = 1;
}
// A client of a trial that broke off may still run.
process.exit();
