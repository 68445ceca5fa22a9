import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../test/bed/command.ts';
import { PLANS, nodeIndexes, nodeName } from './addresses.ts';
import { startComponent, until } from './component.ts';
import { type Credentials, kubeconfigOf } from './control-plane.ts';
import type { Cache, ClusterFolder } from './folders.ts';
import { type Kubectl, answers, kubectl } from './kubectl.ts';
import { tap } from './network.ts';
import { nodeFiles } from './node-files.ts';
import { exists } from './packages.ts';
import type { Settings } from './settings.ts';
import type { ComponentState, ProcessMark } from './state-file.ts';

const BOOT = path.join(import.meta.dirname, 'node/boot.sh');

/** Starts the nodes; they boot at the same time. `firstImages` are names of archives in the cache; `kernel` is the
 * folder of their kernel. */
export async function startNodes(
  keeper: ProcessMark,
  folder: ClusterFolder,
  cache: Cache,
  settings: Settings,
  credentials: Credentials,
  firstImages: readonly string[],
  kernel: string,
): Promise<readonly ComponentState[]> {
  const door = await createDoorKey(folder, cache);
  const nodes: ComponentState[] = [];
  for (const index of nodeIndexes(settings.nodes)) {
    const name = nodeName(index);
    const home = folder.node(name);
    const logs = path.join(folder.logs, name);
    await mkdir(home, { recursive: true });
    await mkdir(logs, { recursive: true });
    const first = firstImages.map((image) => `/cluster/images/${image}\n`).join('');
    const files = { ...nodeFiles(settings, index), authorized_keys: door, 'first-images': first };
    for (const [file, text] of Object.entries(files)) await writeFile(path.join(home, file), text);
    await copyFile(kubeconfigOf(folder, name), path.join(home, 'kubeconfig'));
    await copyFile(credentials.authority.certificate, path.join(home, 'ca.crt'));
    const shared = [`LOGS=${logs}`, `BIN=${cache.bin}`, `IMAGES=${cache.images}`, `CLUSTER_IMAGES=${folder.images}`];
    const argv = [BOOT, settings.memory, tap(index), ...shared, `PACKAGES=${cache.packages}`];
    const nodeLogs = ['init', 'containerd', 'kubelet'].map((log) => path.join(logs, `${log}.log`));
    nodes.push(
      await startComponent(
        keeper,
        folder.logs,
        name,
        ['env', `NODE_FOLDER=${home}`, `KERNEL_FOLDER=${kernel}`, ...argv],
        nodeLogs,
      ),
    );
  }
  return nodes;
}

/** Waits until the node has registered, then tells the API server which Pods' addresses are there. */
export async function awaitNode(
  node: ComponentState,
  index: number,
  settings: Settings,
  command: Kubectl,
): Promise<void> {
  const name = `node/${node.name}`;
  await until(node, 600, async () => ((await answers(command, ['get', name])) ? undefined : 'not registered'));
  const podCIDRs = settings.families.map((family) => PLANS[family].podsOf(index));
  const patch = JSON.stringify({ spec: { podCIDR: podCIDRs[0], podCIDRs } });
  await kubectl(command, ['patch', name, '--patch', patch]);
  const ready = ['wait', '--for=condition=Ready', name, '--timeout=1s'];
  await until(node, 600, async () => ((await answers(command, ready)) ? undefined : 'not Ready'));
}

/** Lets the nodes import the archives that are not needed at first, and waits until they have. */
export async function importAll(nodes: readonly ComponentState[], folder: ClusterFolder): Promise<void> {
  for (const { name } of nodes) await writeFile(path.join(folder.node(name), 'import-all'), '');
  for (const node of nodes) {
    const done = path.join(folder.logs, node.name, 'images');
    await until(node, 600, async () => ((await exists(done)) ? undefined : 'has not imported all images'));
  }
}

export function doorKeyOf(folder: ClusterFolder): string {
  return path.join(folder.certificates, 'door-key');
}

/** Creates the key that opens a shell on the nodes. Returns the line for authorized_keys. */
async function createDoorKey(folder: ClusterFolder, cache: Cache): Promise<string> {
  const argv = ['dropbearkey', '-t', 'ed25519', '-f', doorKeyOf(folder)];
  const { stdout } = await runCommand(['env', ...dropbearEnvironment(cache), ...argv]);
  const key = stdout.split('\n').find((line) => line.startsWith('ssh-'));
  if (key === undefined) throw new Error(`dropbearkey printed no public key: ${stdout}`);
  return `${key}\n`;
}

/** dropbear is unpacked, not installed: it finds its libraries by these variables. */
export function dropbearEnvironment({ packages }: Cache): readonly string[] {
  const libraries = path.join(packages, 'usr/lib/x86_64-linux-gnu');
  return [`LD_LIBRARY_PATH=${libraries}`, `PATH=${path.join(packages, 'usr/bin')}:${process.env['PATH'] ?? ''}`];
}
