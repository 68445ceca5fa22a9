import { type FSWatcher, watch } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../base/text/error-text.ts';

const MANIFEST_NAME = /^[^.].*\.(?:ya?ml|json)$/;

/** Maps file names to signatures. An equal signature means that the file is unchanged. */
export type DirectoryListing = ReadonlyMap<string, string>;

/** Maximum number of attempts to read a directory that keeps changing. */
const LIST_ATTEMPTS = 5;

/**
 * Lists the manifest files of a directory, sorted by name. Follows symlinks, because the kubelet updates a mounted
 * ConfigMap by swapping a symlink.
 *
 * Rejects if the directory does not exist or keeps changing. Repeats a listing that lost files while the directory
 * changed: the directory may have been moved away.
 */
export async function listManifests(directory: string): Promise<DirectoryListing> {
  for (let attempt = 1; ; attempt++) {
    const before = await changeOf(directory);
    const { listing, vanished } = await readListing(directory);
    // A dangling symlink fails in each listing, although the directory is unchanged.
    if (!vanished || (await changeOf(directory)) === before) return listing;
    if (attempt === LIST_ATTEMPTS) throw new Error(`it changed during each of ${attempt} attempts to read it`);
  }
}

async function readListing(directory: string): Promise<{ listing: DirectoryListing; vanished: boolean }> {
  const names = (await readdir(directory)).filter((name) => MANIFEST_NAME.test(name)).toSorted();
  const listing = new Map<string, string>();
  let vanished = false;
  for (const name of names) {
    try {
      const entry = await stat(join(directory, name), { bigint: true });
      if (entry.isFile())
        listing.set(name, `${entry.dev}:${entry.ino}:${entry.mtimeNs}:${entry.ctimeNs}:${entry.size}`);
    } catch (error) {
      // The file was deleted after readdir, or it is a dangling symlink.
      if (errorCode(error) !== 'ENOENT') throw error;
      vanished = true;
    }
  }
  return { listing, vanished };
}

/** Returns a text that changes if the path refers to another directory or the directory changes. */
async function changeOf(directory: string): Promise<string> {
  const entry = await stat(directory, { bigint: true });
  return `${entry.dev}:${entry.ino}:${entry.ctimeNs}`;
}

/**
 * Calls `onChange` when a directory may have changed. Call `follow` after each scan, so that a directory that is
 * created late or recreated at this path is watched too. Without inotify, the caller must rely on polling.
 */
export class DirectoryWatcher {
  readonly #directory: string;
  readonly #onChange: () => void;
  #watcher: FSWatcher | undefined;
  #inode: string | undefined;

  constructor(directory: string, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  async follow(): Promise<void> {
    const entry = await stat(this.#directory, { bigint: true }).catch(() => undefined);
    const inode = entry && `${entry.dev}:${entry.ino}`;
    if (inode === this.#inode) return;
    this.close();
    if (inode === undefined) return;
    try {
      this.#watcher = watch(this.#directory, this.#onChange);
      this.#watcher.on('error', () => this.close());
      this.#inode = inode;
      // Files may have been written between the caller's scan and this watch: scan again.
      this.#onChange();
    } catch {
      // No inotify watches are left, or the directory was deleted: the caller's polling continues.
      this.close();
    }
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#inode = undefined;
  }
}
