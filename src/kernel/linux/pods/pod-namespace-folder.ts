import { readdirSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { NetlinkError } from '../../../netlink/error.ts';
import type { CommandRunner } from '../../command-runner.ts';
import type { PodNamespace, PodNamespaces } from '../../pod-namespaces.ts';
import type { LoadFou } from '../gue-ports.ts';
import { loadFou } from '../modules.ts';
import { PodLinks } from './pod-links.ts';
import { LinuxPodNamespace } from './pod-namespace.ts';
import { withKernelError } from '../netlink-failure.ts';

const OWN = '/proc/self/ns/net';
/** The file is not a network namespace, or it is one that was removed meanwhile. */
const NO_NAMESPACE: ReadonlySet<number> = new Set([constants.errno.EINVAL, constants.errno.ENOENT]);

/** The network namespaces that a container runtime keeps as files in a folder. */
export class PodNamespaceFolder implements PodNamespaces {
  readonly #folder: string;
  readonly #loadFou: LoadFou;

  constructor(folder: string, runner: CommandRunner) {
    this.#folder = folder;
    this.#loadFou = () => loadFou(runner);
  }

  async each(visit: (namespace: PodNamespace) => Promise<void>, only?: ReadonlySet<string>): Promise<void> {
    const files = this.#files().filter((file) => only?.has(file) !== false);
    if (files.length === 0) return;
    const links = await withKernelError('read the interfaces of this node', () => PodLinks.read());
    try {
      for (const file of files) {
        const namespace = await withKernelError(`enter ${file}`, () => this.#open(file, links));
        if (namespace === undefined) continue;
        try {
          await visit(namespace);
        } finally {
          namespace.close();
        }
      }
    } finally {
      links.close();
    }
  }

  async #open(file: string, links: PodLinks): Promise<LinuxPodNamespace | undefined> {
    try {
      return new LinuxPodNamespace(file, await links.leadingTo(file), this.#loadFou);
    } catch (error) {
      if (error instanceof NetlinkError && NO_NAMESPACE.has(error.errno)) return undefined;
      throw error;
    }
  }

  /** The node's own namespace is left out, also under another name: nothing in it belongs to a Pod. */
  #files(): readonly string[] {
    const own = statSync(OWN);
    return namesIn(this.#folder)
      .map((name) => path.join(this.#folder, name))
      .filter((file) => {
        const found = statSync(file, { throwIfNoEntry: false });
        return found?.isFile() === true && !(found.dev === own.dev && found.ino === own.ino);
      });
  }
}

/** A runtime creates the folder with its first Pod. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}
