import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from './error-text.ts';

const MANIFEST_NAME = /^[^.].*\.(?:ya?ml|json)$/;

/** File name -> signature: two equal signatures mean that the file was not written in between. */
export type DirectoryListing = ReadonlyMap<string, string>;

/**
 * Lists the manifest files of a directory, sorted by name. Files are followed through symlinks: the kubelet shows a ConfigMap as
 * links that are swapped at once, so the inode behind a name changes while the link stays.
 */
export async function listManifests(directory: string): Promise<DirectoryListing> {
  const names = (await readdir(directory)).filter((name) => MANIFEST_NAME.test(name)).toSorted();
  const listing = new Map<string, string>();
  for (const name of names) {
    try {
      const entry = await stat(join(directory, name), { bigint: true });
      if (entry.isFile())
        listing.set(name, `${entry.dev}:${entry.ino}:${entry.mtimeNs}:${entry.ctimeNs}:${entry.size}`);
    } catch (error) {
      // Gone since readdir, or a dangling link: not there, as far as we are concerned.
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return listing;
}

/**
 * Tells when something in a directory may have changed. Follows the path, not the inode: call `follow` after each look, so that
 * a directory that appears late or is recreated is watched as well. Where nothing can be watched the caller's poll remains.
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
    const inode = await this.#currentInode();
    if (inode === this.#inode) return;
    this.close();
    if (inode === undefined) return;
    try {
      this.#watcher = watch(this.#directory, this.#onChange);
      this.#watcher.on('error', () => this.close());
      this.#inode = inode;
      // What was written between the caller's look and this watch would otherwise wait for the poll.
      this.#onChange();
    } catch {
      // No inotify watches left, or the directory is gone again: the poll finds out.
      this.close();
    }
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#inode = undefined;
  }

  async #currentInode(): Promise<string | undefined> {
    try {
      const entry = await stat(this.#directory, { bigint: true });
      return `${entry.dev}:${entry.ino}`;
    } catch {
      return undefined;
    }
  }
}
