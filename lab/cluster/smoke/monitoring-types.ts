import path from 'node:path';
import { runCommand } from '../../../test/bed/command.ts';
import { goEnvironment } from '../go.ts';
import { type Kubectl, kubectl } from '../kubectl.ts';

const OPERATOR = 'github.com/prometheus-operator/prometheus-operator@v0.82.2';
const TYPES = ['podmonitors', 'servicemonitors', 'prometheusrules'];

/** Returns the files of Prometheus Operator's module that define the types of our monitors and alerts. Go downloads it once. */
export async function monitoringTypes(): Promise<readonly string[]> {
  const download = ['go', 'mod', 'download', '-json', OPERATOR];
  const { stdout } = await runCommand(download, { env: goEnvironment(), timeoutMs: 600_000 });
  const { Dir: folder } = JSON.parse(stdout) as { readonly Dir: string };
  return TYPES.map((type) =>
    path.join(folder, 'example/prometheus-operator-crd', `monitoring.coreos.com_${type}.yaml`),
  );
}

/** Makes the types known to an API server. */
export async function createMonitoringTypes(command: Kubectl): Promise<void> {
  for (const file of await monitoringTypes()) await kubectl(command, ['create', '--filename', file]);
  const names = TYPES.map((type) => `customresourcedefinition/${type}.monitoring.coreos.com`);
  await kubectl(command, ['wait', '--for=condition=Established', '--timeout=50s', ...names]);
}
