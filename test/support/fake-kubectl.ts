import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Ended, runToEnd } from './program.ts';

const PROGRAM = path.resolve('test/support/fake-kubectl.sh');

/** A kubectl whose cluster is a folder, for tests of scripts. fake-kubectl.sh has the names of the files. */
export class FakeKubectl {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A cluster of the nodes node-1 and node-2, with kube-proxy and its configuration. */
  static async make(config: string): Promise<FakeKubectl> {
    // The scripts must not depend on a folder's name without spaces.
    const folder = await mkdtemp(path.join(tmpdir(), 'kubectl '));
    await copyFile(PROGRAM, path.join(folder, 'kubectl'));
    await mkdir(path.join(folder, 'tmp'));
    const kubectl = new FakeKubectl(folder);
    await kubectl.put('asked', '');
    await kubectl.put('nodes/node-1', '');
    await kubectl.put('nodes/node-2', '');
    await kubectl.put('kernel', '6.1.0-21-amd64');
    await kubectl.put('kubelet', 'v1.35.4');
    await kubectl.put('daemonset/kube-proxy', 'kube-proxy\n');
    await kubectl.put('configmap/kube-proxy/config.conf', config);
    return kubectl;
  }

  async put(name: string, text: string): Promise<void> {
    const file = path.join(this.#folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  }

  async get(name: string): Promise<string> {
    return await readFile(path.join(this.#folder, name), 'utf8');
  }

  /** Removes a file or folder of the cluster. */
  async remove(name: string): Promise<void> {
    await rm(path.join(this.#folder, name), { recursive: true });
  }

  /** Runs a script that finds this kubectl, in the folder tmp. */
  async run(script: string, ...args: readonly string[]): Promise<Ended> {
    const cwd = path.join(this.#folder, 'tmp');
    const env = { PATH: `${this.#folder}:${process.env['PATH'] ?? ''}`, TMPDIR: cwd };
    return await runToEnd([path.resolve(script), ...args], { env, cwd });
  }

  /** The requests that are not reads, without the folders of files. */
  async changes(): Promise<readonly string[]> {
    const lines = (await this.get('asked')).trimEnd().split('\n');
    return lines
      .filter((line) => /^(label|patch|rollout|apply|delete) /.test(line))
      .map((line) => line.replace(/--filename .*\//, '--filename '));
  }

  /** The temporary files that scripts left. */
  async leftovers(): Promise<string> {
    return (await runToEnd(['ls', path.join(this.#folder, 'tmp')])).stdout;
  }

  async dispose(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }
}
