// `make e2e`: runs upstream's e2e specs against clusters of `make cluster` and updates lab/results/e2e.json and lab/results/e2e.md.
// `node lab/cluster/e2e/main.ts PROXY=all FOCUS=Services`; settings.ts and ../settings.ts have all settings.
import { CommandError } from '../../../test/bed/command.ts';
import { buildPrograms } from '../build.ts';
import { ComponentError } from '../component.ts';
import { cacheOf } from '../folders.ts';
import { SPEC_PROGRAMS } from '../programs.ts';
import { SettingsError, parseSettings } from '../settings.ts';
import { useCluster } from '../use-cluster.ts';
import { publish, readKept } from './files.ts';
import { type E2eProxy, addRun } from './results.ts';
import { runSpecs, servingProxy } from './run-specs.ts';
import { type E2eSettings, E2eSettingsError, parseE2eSettings } from './settings.ts';

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs the specs with one proxy. A cluster that it starts, it also ends. Returns the lines that nobody has explained. */
async function e2e(proxy: E2eProxy, settings: E2eSettings): Promise<readonly string[]> {
  const cluster = parseSettings([...settings.cluster, `PROXY=${proxy}`]);
  await buildPrograms(cluster.kubernetes, cacheOf(cluster.kubernetes), SPEC_PROGRAMS, say);
  return useCluster(cluster, say, async (state) => {
    const serving = await servingProxy(state);
    if (serving !== proxy) {
      const advice = `end it by make cluster-down, or choose another one by CLUSTER=`;
      throw new E2eSettingsError(
        `the cluster ${state.cluster} runs ${serving ?? 'another proxy'}, not ${proxy}: ${advice}`,
      );
    }
    say(`running the specs with ${proxy}; their log is build/e2e/${proxy}/log.txt`);
    const { run, results } = await runSpecs(state, proxy, settings);
    if (results.length === 0) throw new E2eSettingsError(noneRan(settings.focus));
    const count = (outcome: string): number => results.filter((result) => result.outcome === outcome).length;
    say(
      `${proxy}: ${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped in ${run.seconds} s`,
    );
    return publish(addRun(readKept(), run, results)).unexplained;
  });
}

function noneRan(focus: string): string {
  return `no spec ran: no name begins with "[sig-network] " and FOCUS=${focus}; .*TEXT finds TEXT anywhere in a name`;
}

try {
  const settings = parseE2eSettings(process.argv.slice(2));
  let unexplained: readonly string[] = [];
  for (const proxy of settings.proxies) unexplained = await e2e(proxy, settings);
  if (unexplained.length > 0) {
    say(
      `results without a reason in lab/cluster/e2e/reasons.ts:\n${unexplained.map((line) => `  ${line}`).join('\n')}`,
    );
    process.exitCode = 1;
  }
} catch (error) {
  const expected = [SettingsError, E2eSettingsError, ComponentError, CommandError].some(
    (type) => error instanceof type,
  );
  if (!(error instanceof Error && expected)) throw error;
  process.stderr.write(`make e2e: ${error.message}\n`);
  process.exitCode = 1;
}
