import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ComponentError } from '../component.ts';
import { PROJECT } from '../folders.ts';
import { kubectl, kubectlFor } from '../kubectl.ts';
import { ourVersion } from '../our-version.ts';
import type { ClusterState } from '../state-file.ts';
import { type SpecResult, parseJunit } from './junit.ts';
import { proxyOfCluster } from './proxy-of-cluster.ts';
import { type E2eProxy, type Run, isOurs } from './results.ts';
import type { E2eSettings } from './settings.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

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
  const status = await runSuite(args);
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

/** Runs run.sh, and ends it if this process is to end. Returns its status. */
async function runSuite(args: readonly string[]): Promise<number | null> {
  // In a group of its own: ginkgo and e2e.test must end, too.
  const suite = spawn(path.join(import.meta.dirname, 'run.sh'), args, { stdio: 'inherit', detached: true });
  let endedBy: NodeJS.Signals | undefined;
  const end = (signal: NodeJS.Signals): void => {
    endedBy = signal;
    if (suite.pid !== undefined) process.kill(-suite.pid, 'SIGTERM');
  };
  for (const signal of SIGNALS) process.once(signal, end);
  try {
    const [status] = (await once(suite, 'exit')) as [number | null];
    if (endedBy !== undefined) throw new ComponentError(`ended by ${endedBy}`);
    return status;
  } finally {
    for (const signal of SIGNALS) process.off(signal, end);
  }
}
