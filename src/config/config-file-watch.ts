import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { errorText } from '../base/error-text.ts';

export interface ConfigFileWatch {
  close(): void;
}

export interface ConfigFileWatchOptions {
  readonly path: string;
  /** SHA-256 in hex of the content that is in effect. */
  readonly sha256: string;
  /** Called once, if the content differs. */
  readonly onChange: () => void;
  /** Called if the folder of the file cannot be watched; polling continues. */
  readonly onError?: (error: Error) => void;
  /** Polling interval in milliseconds, for network file systems, which send no events. */
  readonly pollEvery?: number;
  /** Delay in milliseconds from an event to reading the file, because editors write in several steps. */
  readonly settle?: number;
}

/** Returns the SHA-256 of the content in hex. */
export function contentHash(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

async function fileHash(path: string): Promise<string | undefined> {
  try {
    return contentHash(await readFile(path));
  } catch {
    // The file may be missing while another program replaces it.
    return undefined;
  }
}

/**
 * Watches the content of a file. Detects a write, a rename onto the path and the symlink swap of a ConfigMap volume;
 * ignores a touch or a rewrite of the same bytes. Watches the folder, because a watch of the file ends with its inode.
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
  function scheduleCompare(): void {
    clearTimeout(timer);
    timer = setTimeout(() => void compare(), settle);
  }
  const poll = setInterval(scheduleCompare, pollEvery);
  poll.unref();
  try {
    // A ConfigMap volume swaps the symlink "..data" beside the file.
    const names = new Set([basename(path), '..data']);
    watcher = watch(dirname(path), (_event, name) => {
      if (name === null || names.has(name)) scheduleCompare();
    });
    watcher.on('error', (error) => onError?.(error));
  } catch (error) {
    onError?.(new Error(errorText(error), { cause: error }));
  }
  return { close };
}
