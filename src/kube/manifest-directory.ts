import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from './error-text.ts';

const MANIFEST_NAME = /^[^.].*\.(?:ya?ml|json)$/;

/** File name -> signature: two equal signatures mean that the file was not written in between. */
export type DirectoryListing = ReadonlyMap<string, string>;

/** A directory that changes faster than it can be read is read again so often. */
const LIST_ATTEMPTS = 5;

/**
 * Lists the manifest files of a directory, sorted by name. Files are followed through symlinks: the kubelet shows a ConfigMap as
 * links that are swapped at once, so the inode behind a name changes while the link stays.
 *
 * Rejects when the directory is not there, or does not rest. One that is moved away while it is read seems to lose its files one by
 * one; nobody deleted them, so such a listing is not believed.
 */
export async function listManifests(directory: string): Promise<DirectoryListing> {
  for (let attempt = 1; ; attempt++) {
    const before = await changeOf(directory);
    const { listing, vanished } = await readListing(directory);
    // A dangling link vanishes each time, in a directory that stays as it is.
    if (!vanished || (await changeOf(directory)) === before) return listing;
    if (attempt === LIST_ATTEMPTS) throw new Error(`it changed ${attempt} times while it was read`);
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
      // Gone since readdir, or a dangling link: not there, as far as we are concerned.
      if (errorCode(error) !== 'ENOENT') throw error;
      vanished = true;
    }
  }
  return { listing, vanished };
}

/** Which directory a path names, and when that directory last changed. */
async function changeOf(directory: string): Promise<string> {
  const entry = await stat(directory, { bigint: true });
  return `${entry.dev}:${entry.ino}:${entry.ctimeNs}`;
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
