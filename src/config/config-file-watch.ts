import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { errorText } from './problem.ts';

export interface ConfigFileWatch {
  close(): void;
}

export interface ConfigFileWatchOptions {
  readonly path: string;
  /** SHA-256 of the content that the program runs with, in hex. */
  readonly sha256: string;
  /** Called once, when the content is another. */
  readonly onChange: () => void;
  /** Called when the file's folder cannot be watched; the poll goes on. */
  readonly onError?: (error: Error) => void;
  /** How often the content is compared without an event, in milliseconds: network file systems send none. */
  readonly pollEvery?: number;
  /** How long after an event the content is read, in milliseconds: editors write in steps. */
  readonly settle?: number;
}

/** What a file says, as a hash in hex. */
export function contentHash(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

async function fileHash(path: string): Promise<string | undefined> {
  try {
    return contentHash(await readFile(path));
  } catch {
    // Between two steps of a replacement the file may be missing: that is not new content.
    return undefined;
  }
}

/**
 * Watches what a file says, not its inode: a write, a rename over it and the symlink swap of a ConfigMap volume count alike, a touch or
 * a rewrite of the same bytes do not. The folder is watched, because a watch of the file ends with its inode.
 */
export function watchConfigFile(options: ConfigFileWatchOptions): ConfigFileWatch {
  const { path, sha256, onChange, onError, pollEvery = 30_000, settle = 200 } = options;
  let watcher: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function close(): void {
    closed = true;
    clearTimeout(timer);
    clearInterval(poll);
    watcher?.close();
  }
  async function compare(): Promise<void> {
    const now = await fileHash(path);
    if (closed || now === undefined || now === sha256) return;
    close();
    onChange();
  }
  function look(): void {
    clearTimeout(timer);
    timer = setTimeout(() => void compare(), settle);
  }
  const poll = setInterval(look, pollEvery);
  poll.unref();
  try {
    // A ConfigMap volume swaps the symlink "..data" beside the file.
    const names = new Set([basename(path), '..data']);
    watcher = watch(dirname(path), (_event, name) => {
      if (name === null || names.has(name)) look();
    });
    watcher.on('error', (error) => onError?.(error));
  } catch (error) {
    onError?.(new Error(errorText(error), { cause: error }));
  }
  return { close };
}
