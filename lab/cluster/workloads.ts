import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Part, until } from './component.ts';
import { coredns } from './coredns.ts';
import { type ClusterFolder, PROJECT } from './folders.ts';
import { kubeProxy } from './kube-proxy.ts';
import { type Kubectl, answers, kubectl } from './kubectl.ts';
import { overlayFiles } from './overlay.ts';
import type { Settings } from './settings.ts';

/** Applies the service proxy. Returns the name of its DaemonSet; undefined if there is none. */
export async function applyProxy(
  folder: ClusterFolder,
  settings: Settings,
  command: Kubectl,
): Promise<string | undefined> {
  switch (settings.proxy) {
    case 'none':
      return undefined;
    case 'ours':
    case 'ours-nftables':
    case 'ours-iptables': {
      const overlay = path.join(folder.manifests, 'kube-ipvs-proxy');
      await writeFiles(overlay, overlayFiles(settings, overlay, PROJECT));
      await kubectl(command, ['apply', '--kustomize', overlay]);
      return 'daemonset/kube-ipvs-proxy';
    }
    case 'kube-proxy-ipvs':
    case 'kube-proxy-iptables':
    case 'kube-proxy-nftables': {
      const mode = settings.proxy.slice('kube-proxy-'.length);
      await apply(folder, 'kube-proxy', kubeProxy(settings.kubernetes, settings.families, mode), command);
      return 'daemonset/kube-proxy';
    }
  }
}

/** Applies CoreDNS. Returns the name of its Deployment. */
export async function applyDns(folder: ClusterFolder, settings: Settings, command: Kubectl): Promise<string> {
  await apply(folder, 'coredns', coredns(settings.families), command);
  return 'deployment/coredns';
}

/** Waits until all Pods of a DaemonSet or Deployment in kube-system are ready. It ends early if `node` ends. */
export async function awaitRollout(
  workload: string,
  node: Part,
  folder: ClusterFolder,
  command: Kubectl,
): Promise<void> {
  const pods = path.join(folder.logs, 'pods.log');
  const log = path.join(folder.logs, `${path.basename(workload)}.log`);
  const inspect = async (): Promise<void> => {
    await writeAnswer(pods, command, ['get', 'pods', '--all-namespaces', '--output=wide']);
    await writeAnswer(log, command, ['--namespace=kube-system', 'logs', workload, '--all-pods', '--tail=100']);
  };
  const component = { name: workload, logs: [pods, log], endFile: node.endFile, inspect };
  const status = ['--namespace=kube-system', 'rollout', 'status', workload, '--timeout=2s'];
  await until(component, 600, async () => ((await answers(command, status)) ? undefined : 'not Ready'));
}

async function writeAnswer(file: string, command: Kubectl, args: readonly string[]): Promise<void> {
  await writeFile(file, await kubectl(command, args).catch((error: unknown) => String(error)));
}

async function apply(folder: ClusterFolder, name: string, items: readonly unknown[], command: Kubectl): Promise<void> {
  const list = `${JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 2)}\n`;
  await writeFiles(folder.manifests, { [`${name}.json`]: list });
  await kubectl(command, ['apply', '--filename', path.join(folder.manifests, `${name}.json`)]);
}

async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text);
}
