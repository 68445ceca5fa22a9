// `make matrix PROXY=kube-proxy`: builds kube-proxy of the release that the traffic matrix compares ours with.
import { CommandError } from '../../test/bed/command.ts';
import { COMPARED_VERSION } from '../../test/support/kube-proxy.ts';
import { buildPrograms } from './build.ts';
import { cacheOf } from './folders.ts';
import { SettingsError } from './settings.ts';

try {
  await buildPrograms(COMPARED_VERSION, cacheOf(COMPARED_VERSION), ['kube-proxy'], (line) => {
    process.stdout.write(`${line}\n`);
  });
} catch (error) {
  if (!(error instanceof SettingsError || error instanceof CommandError)) throw error;
  process.stderr.write(`make matrix: ${error.message}\n`);
  process.exitCode = 1;
}
