import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { CommandResult } from '../../../test/bed/command.ts';
import { PROJECT } from '../folders.ts';
import type { Check } from './check.ts';

/** What a user would apply, and the command that prints it. */
export interface Manifests {
  readonly name: string;
  readonly argv: readonly string[];
}

const ADDRESS = '--set=apiServer=https://192.0.2.1:6443';
const FURTHER_VALUES = path.join(PROJECT, 'lab/cluster/smoke/further-values.yaml');

/** Values of the documented uses. */
const CHART_USES = [
  `${ADDRESS},overlay=privileged`,
  `${ADDRESS},overlay=restricted`,
  '--set=kubeletKubeconfig=/etc/kubernetes/kubelet.conf',
  `${ADDRESS},preparePods.enabled=true`,
  `${ADDRESS},nameSuffix=-nftables,config.mode=nftables`,
  `${ADDRESS},cleanupOnUninstall.enabled=true,maxUnavailable=2`,
  `${ADDRESS},image.repository=registry.example/a,image.digest=sha256:${'a'.repeat(64)}`,
  `${ADDRESS},config.metricsBindAddress=0.0.0.0:10249,jobLabel=proxy,podMonitor.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true`,
  `--values=${FURTHER_VALUES}`,
];

/** Every overlay, and the chart in each documented use. `kubectl` and `helm` are programs. */
export function allManifests(kubectl: string, helm: string): readonly Manifests[] {
  const overlays = readdirSync(path.join(PROJECT, 'manifests/overlays')).toSorted();
  const chart = path.join(PROJECT, 'charts/kube-ipvs-proxy');
  const template = [helm, 'template', 'kube-ipvs-proxy', chart, '--namespace=kube-system', '--kube-version=1.35.0'];
  return [
    ...overlays.map((name) => ({
      name: `overlay ${name}`,
      argv: [kubectl, 'kustomize', path.join(PROJECT, 'manifests/overlays', name)],
    })),
    ...CHART_USES.map((use) => ({ name: `chart with ${use.replace('--set=', '')}`, argv: [...template, use] })),
  ];
}

/** The arguments of kubectl that have the API server check objects and admit them, without storing them. */
export const DRY_RUN = ['apply', '--dry-run=server', '--namespace=kube-system', '--filename=-'];

/** Whether the API server accepted all objects, of which a DaemonSet must be one. */
export function acceptedCheck(name: string, { status, stdout, stderr }: CommandResult): Check {
  const check = `the API server accepts the ${name}`;
  if (status !== 0) return { name: check, failure: stderr.trim() };
  const lines = stdout.trim().split('\n');
  const stored = lines.filter((line) => !line.endsWith('(server dry run)'));
  if (stored.length > 0) return { name: check, failure: `not a dry run: ${stored.join('; ')}` };
  if (!lines.some((line) => line.startsWith('daemonset.apps/'))) return { name: check, failure: 'it has no DaemonSet' };
  return { name: check };
}
