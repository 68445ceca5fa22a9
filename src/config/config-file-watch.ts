import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

export interface ConfigFileWatchOptions {
  readonly path: string;
  /** SHA-256 in hex of the content that is in effect. */
  readonly sha256: string;
  /** Called once, if the content differs. */
  readonly onChange: () => void;
  /** Milliseconds between two reads; 2,000 by default. */
  readonly intervalMs?: number;
}

/** Returns the SHA-256 of the content in hex. */
export function contentHash(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * Polls a file, which also detects the symlink swap of a ConfigMap volume and changes on network file systems. Two
 * reads must find the same new content, because editors write in several steps. Returns a function that ends the watch.
 */
export function watchConfigFile({ path, sha256, onChange, intervalMs = 2_000 }: ConfigFileWatchOptions): () => void {
  let last = sha256;
  let closed = false;
  const close = (): void => {
    closed = true;
    clearInterval(timer);
  };
  const compare = async (): Promise<void> => {
    // The file may be missing while another program replaces it.
    const content = await readFile(path).catch(() => undefined);
    if (closed || content === undefined) return;
    const now = contentHash(content);
    if (now !== sha256 && now === last) {
      close();
      onChange();
    }
    last = now;
  };
  const timer = setInterval(() => void compare(), intervalMs);
  timer.unref();
  return close;
}
