// `make cluster-down`: ends a cluster of `make cluster` and removes what it left. `node lab/cluster/down.ts CLUSTER=a`.
import { clusterDown } from './cluster.ts';
import { SettingsError, parseSettings } from './settings.ts';

try {
  const { cluster } = parseSettings(process.argv.slice(2));
  const existed = await clusterDown(cluster);
  process.stdout.write(existed ? `the cluster ${cluster} is gone\n` : `there is no cluster ${cluster}\n`);
} catch (error) {
  if (!(error instanceof SettingsError)) throw error;
  process.stderr.write(`make cluster-down: ${error.message}\n`);
  process.exitCode = 1;
}
