// `make cluster`: a Kubernetes cluster on this machine. `node lab/cluster/up.ts NODES=3 CLUSTER=a`; settings.ts has all.
import { CommandError } from '../../test/bed/command.ts';
import { clusterUp } from './cluster.ts';
import { ComponentError } from './component.ts';
import { SettingsError, parseSettings } from './settings.ts';

try {
  await clusterUp(parseSettings(process.argv.slice(2)), (line) => process.stdout.write(`${line}\n`));
} catch (error) {
  const expected = [SettingsError, ComponentError, CommandError].some((type) => error instanceof type);
  if (!(error instanceof Error && expected)) throw error;
  process.stderr.write(`make cluster: ${error.message}\n`);
  process.exitCode = 1;
}
// What it has started outlives it.
process.exit();
