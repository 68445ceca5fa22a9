import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { PROJECT } from '../folders.ts';
import { kubectl, kubectlFor } from '../kubectl.ts';
import { ourVersion } from '../our-version.ts';
import type { ClusterState } from '../state-file.ts';
import { type SpecResult, parseJunit } from './junit.ts';
import { proxyOfCluster } from './proxy-of-cluster.ts';
import { type E2eProxy, type Run, isOurs } from './results.ts';
import type { E2eSettings } from './settings.ts';

/** Which service proxy the cluster runs; undefined if none that e2e compares. */
export async function servingProxy(state: ClusterState): Promise<E2eProxy | undefined> {
  const what = ['--namespace=kube-system', 'get', 'daemonsets,configmaps', '--output=json'];
  return proxyOfCluster(await kubectl(kubectlFor(state), what));
}

/** Runs the selected specs against a cluster; the log goes to build/e2e/NAME. Throws if the suite left no report. */
export async function runSpecs(
  state: ClusterState,
  proxy: E2eProxy,
  settings: Pick<E2eSettings, 'focus' | 'procs' | 'timeout'>,
  name: string = proxy,
): Promise<{ readonly run: Run; readonly results: readonly SpecResult[]; readonly out: string }> {
  const out = path.join(PROJECT, 'build/e2e', name);
  const kernelVersion = '--output=jsonpath={.items[0].status.nodeInfo.kernelVersion}';
  const kernel = await kubectl(kubectlFor(state), ['get', 'nodes', kernelVersion]);
  const start = `${new Date().toISOString().slice(0, 19)}Z`;
  const begin = performance.now();
  const args = [
    `--bin=${state.bin}`,
    `--kubeconfig=${state.kubeconfig}`,
    `--netns=${state.netns}`,
    `--out=${out}`,
    `--focus=${settings.focus}`,
    `--procs=${settings.procs}`,
    `--nodes=${state.nodes.length}`,
    `--timeout=${settings.timeout}`,
  ];
  const { status } = spawnSync(path.join(import.meta.dirname, 'run.sh'), args, { stdio: 'inherit' });
  const report = path.join(out, 'junit.xml');
  // The status is also 1 if specs failed.
  if (!existsSync(report)) throw new Error(`the suite ended with status ${status} and no report: see ${out}/log.txt`);
  const run = {
    start,
    proxy,
    version: isOurs(proxy) ? ourVersion() : state.kubernetes,
    kubernetes: state.kubernetes,
    families: state.families.join(', '),
    nodes: state.nodes.length,
    kernel,
    seconds: Math.round((performance.now() - begin) / 1000),
    procs: settings.procs,
  };
  return { run, results: parseJunit(readFileSync(report, 'utf8')), out };
}
