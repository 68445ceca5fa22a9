import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../observe/log.ts';
import { errorCode, errorText } from '../../base/error-text.ts';
import { Interner } from '../objects/interner.ts';
import { type DirectoryListing, DirectoryWatcher, listManifests } from './manifest-directory.ts';
import { type ManifestObject, readManifests } from './manifest-file.ts';
import { type ManifestSet, changeEvents, mergeManifests, replacedEvents } from './manifest-set.ts';
import type { Source, SourceEvent } from '../objects/source.ts';

export interface ManifestSourceOptions {
  readonly directory: string;
  /** Name of our Node; other Nodes are ignored. */
  readonly nodeName: string;
  readonly log: Log;
  /** Milliseconds without a change before the directory is read; 100 by default. */
  readonly debounceMs?: number;
  /** Milliseconds between scans, for file systems without inotify; 5,000 by default. */
  readonly pollMs?: number;
}

interface KnownFile {
  readonly signature: string;
  /** Objects of the last valid version of the file. */
  readonly objects: readonly ManifestObject[];
  /** Error of the current version, if it is invalid. */
  readonly error?: string;
}

/**
 * Reads Services, EndpointSlices and our Node from the *.yaml, *.yml and *.json files of a directory, and watches for
 * changes. While a file is invalid or the directory is missing, keeps the last valid objects: a typo must not take down
 * the node's network. Deleting a file deletes its objects.
 */
export class ManifestSource implements Source {
  readonly #options: ManifestSourceOptions;
  readonly #log: Log;
  readonly #interner = new Interner();
  readonly #watcher: DirectoryWatcher;
  #handler: ((event: SourceEvent) => void) | undefined;
  #files = new Map<string, KnownFile>();
  #current: ManifestSet | undefined;
  #conflicts: ReadonlySet<string> = new Set();
  #directoryError: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerIsPoll = false;
  #scan: Promise<void> | undefined;
  #scanAgain = false;

  constructor(options: ManifestSourceOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#watcher = new DirectoryWatcher(options.directory, () => this.#arm(options.debounceMs ?? 100));
  }

  start(handler: (event: SourceEvent) => void): void {
    this.#handler = handler;
    this.#look();
  }

  async stop(): Promise<void> {
    this.#handler = undefined;
    clearTimeout(this.#timer);
    this.#watcher.close();
    await this.#scan;
    clearTimeout(this.#timer);
    this.#watcher.close();
  }

  /** Starts the timer of the next scan. A poll does not replace a scan that is scheduled after a change. */
  #arm(delay: number, poll = false): void {
    if (this.#handler === undefined) return;
    if (poll && this.#timer !== undefined && !this.#timerIsPoll) return;
    clearTimeout(this.#timer);
    this.#timerIsPoll = poll;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#look();
    }, delay);
  }

  #look(): void {
    if (this.#scan !== undefined) {
      this.#scanAgain = true;
      return;
    }
    this.#scan = this.#scanOnce()
      .catch((error: unknown) => this.#log.error(`failed to read manifests: ${errorText(error)}`))
      .finally(() => {
        this.#scan = undefined;
        if (this.#scanAgain) {
          this.#scanAgain = false;
          this.#arm(0);
        } else {
          const poll = this.#options.pollMs ?? 5_000;
          // Only the poll detects that a missing directory appears.
          this.#arm(this.#directoryError === undefined ? poll : Math.min(poll, 1_000), true);
        }
      });
  }

  async #scanOnce(): Promise<void> {
    const { directory } = this.#options;
    let listing: DirectoryListing;
    try {
      listing = await listManifests(directory);
    } catch (error) {
      this.#reportDirectory(errorCode(error) === 'ENOENT' ? 'it does not exist' : errorText(error));
      await this.#watcher.follow();
      return;
    }
    if (this.#directoryError !== undefined) this.#log.info(`manifest directory ${directory} readable again`);
    this.#directoryError = undefined;
    const changed = await this.#readChanged(listing);
    // stop() was called during the scan.
    if (this.#handler === undefined) return;
    if (changed || this.#current === undefined) this.#publish();
    await this.#watcher.follow();
  }

  /** Logs an error once, not at each poll. */
  #reportDirectory(reason: string): void {
    if (this.#directoryError === reason) return;
    this.#directoryError = reason;
    const effect =
      this.#current === undefined ? 'nothing is programmed until it can be read' : 'keeping the last good state';
    this.#log.error(`failed to read manifest directory ${this.#options.directory}: ${reason}; ${effect}`);
  }

  /** Reads new and changed files. Returns whether any file changed or was deleted. */
  async #readChanged(listing: DirectoryListing): Promise<boolean> {
    const files = new Map<string, KnownFile>();
    let changed = false;
    for (const [name, signature] of listing) {
      const known = this.#files.get(name);
      if (known?.signature === signature) {
        files.set(name, known);
        continue;
      }
      changed = true;
      files.set(name, { signature, ...(await this.#readFile(name, known)) });
    }
    for (const name of this.#files.keys()) changed ||= !files.has(name);
    this.#files = files;
    return changed;
  }

  async #readFile(name: string, known: KnownFile | undefined): Promise<Omit<KnownFile, 'signature'>> {
    const path = join(this.#options.directory, name);
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      return this.#keepLast(known, `${path}: failed to read: ${errorText(error)}`);
    }
    const file = readManifests(text, this.#options.nodeName, this.#interner);
    if (!file.ok) return this.#keepLast(known, `${path}:${file.line}:${file.column}: ${file.message}`);
    for (const warning of file.warnings) this.#log.warn(`${path}: ${warning}`);
    for (const reason of file.ignored) this.#log.debug(4, `${path}: ignored: ${reason}`);
    return { objects: file.objects };
  }

  /** Keeps the file's last valid objects. Logs the same error only once. */
  #keepLast(known: KnownFile | undefined, error: string): Omit<KnownFile, 'signature'> {
    if (known?.error !== error) this.#log.error(`${error}; keeping the objects of its last good state`);
    return { objects: known?.objects ?? [], error };
  }

  #publish(): void {
    const objects = new Map<string, readonly ManifestObject[]>();
    for (const [name, file] of this.#files) objects.set(name, file.objects);
    const next = mergeManifests(objects);
    for (const conflict of next.conflicts) if (!this.#conflicts.has(conflict)) this.#log.warn(conflict);
    this.#conflicts = new Set(next.conflicts);
    const events = this.#current === undefined ? replacedEvents(next) : changeEvents(this.#current, next);
    this.#current = next;
    for (const event of events) this.#handler?.(event);
  }
}
