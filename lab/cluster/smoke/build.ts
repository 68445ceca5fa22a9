// `make smoke-build`: builds and downloads what `make smoke` needs, as far as the cache lacks it.
import { CommandError } from '../../../test/bed/command.ts';
import { buildPrograms } from '../build.ts';
import { cacheOf } from '../folders.ts';
import { debianRoot } from '../images/sources.ts';
import { ensureKernel } from '../kernel/ensure.ts';
import { ensurePackages } from '../packages.ts';
import { CLUSTER_PROGRAMS, SPEC_PROGRAMS } from '../programs.ts';
import { SettingsError, parseSettings } from '../settings.ts';
import { monitoringTypes } from './monitoring-types.ts';

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

try {
  const { kubernetes } = parseSettings(process.argv.slice(2));
  const cache = cacheOf(kubernetes);
  await buildPrograms(kubernetes, cache, [...CLUSTER_PROGRAMS, ...SPEC_PROGRAMS], say);
  if (await ensurePackages(cache.packages)) say(`packages of the nodes: unpacked in ${cache.packages}`);
  say(`the kernel of the nodes is in ${await ensureKernel(cache.home, say)}`);
  await monitoringTypes();
  say(`the root of test images is in ${debianRoot(cache.home)}`);
} catch (error) {
  if (!(error instanceof SettingsError || error instanceof CommandError)) throw error;
  process.stderr.write(`make smoke-build: ${error.message}\n`);
  process.exitCode = 1;
}
