import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../observe/log/log.ts';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import { Interner } from '../objects/interner.ts';
import { type DirectoryListing, DirectoryWatcher, listManifests } from './manifest-directory.ts';
import { type ManifestObject, readManifests } from './manifest-file.ts';
import { type ManifestSet, eventsBetween, mergeManifests, replacedEvents } from './manifest-set.ts';
import type { Source, SourceEvent } from '../objects/source.ts';
import type { ServiceSelection } from '../objects/trim-service.ts';

export interface ManifestSourceOptions {
  readonly directory: string;
  /** Name of our Node; other Nodes are ignored. */
  readonly nodeName: string;
  readonly selection?: ServiceSelection;
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
  #files = new Map<string, KnownFile>();
  #current: ManifestSet | undefined;
  #conflicts: ReadonlySet<string> = new Set();
  #directoryError: string | undefined;
  #stopped = false;
  /** Called when the directory may have changed, and by stop(). */
  #wake: () => void = () => {};
  #running: Promise<void> | undefined;

  constructor(options: ManifestSourceOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#watcher = new DirectoryWatcher(options.directory, () => this.#wake());
  }

  start(handler: (event: SourceEvent) => void): void {
    this.#running = this.#run(handler);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake();
    await this.#running;
    this.#watcher.close();
  }

  /** Scans the directory at start, after each change and at each poll. */
  async #run(handler: (event: SourceEvent) => void): Promise<void> {
    const { pollMs = 5_000, debounceMs = 100 } = this.#options;
    while (!this.#stopped) {
      let changed = false;
      this.#wake = () => (changed = true);
      try {
        await this.#scan(handler);
      } catch (error) {
        const { directory } = this.#options;
        const retry = `the next attempt is in ${pollMs / 1000} s`;
        this.#log.error(`failed to read the manifests in ${directory}: ${errorText(error)}; ${retry}`);
      }
      // Only the poll detects that a missing directory appears.
      const poll = this.#directoryError === undefined ? pollMs : Math.min(pollMs, 1_000);
      let delay = changed ? debounceMs : poll;
      while (!this.#stopped && (await this.#changesWithin(delay))) delay = debounceMs;
    }
  }

  /** Waits until the directory changes, at most this long. Returns whether it changed. */
  async #changesWithin(milliseconds: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, milliseconds, false);
    this.#wake = () => resolve(true);
    const changes = await promise;
    clearTimeout(timer);
    return changes;
  }

  async #scan(handler: (event: SourceEvent) => void): Promise<void> {
    const { directory } = this.#options;
    let listing: DirectoryListing;
    try {
      listing = await listManifests(directory);
    } catch (error) {
      this.#reportDirectory(errorCode(error) === 'ENOENT' ? 'it does not exist' : errorText(error));
      await this.#watcher.follow();
      return;
    }
    if (this.#directoryError !== undefined) {
      this.#log.info(`the manifest directory ${directory} is readable again; watching it for changes`);
    }
    this.#directoryError = undefined;
    const changed = await this.#readChanged(listing);
    if (this.#stopped) return;
    if (changed || this.#current === undefined) this.#publish(handler);
    await this.#watcher.follow();
  }

  /** Logs an error once, not at each poll. */
  #reportDirectory(reason: string): void {
    if (this.#directoryError === reason) return;
    this.#directoryError = reason;
    const effect =
      this.#current === undefined
        ? 'nothing is programmed until it can be read'
        : 'the objects that it had stay in effect until it can be read';
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
      return this.#keepLast(known, `failed to read manifest ${path}: ${errorText(error)}`);
    }
    const file = readManifests(text, this.#options.nodeName, this.#interner, this.#options.selection);
    if (!file.ok) {
      return this.#keepLast(known, `manifest ${path}:${file.line}:${file.column} is not valid: ${file.message}`);
    }
    for (const warning of file.warnings) this.#log.warn(`${path}: ${warning}`);
    for (const reason of file.ignored) this.#log.debug(4, `${path}: ignored: ${reason}`);
    return { objects: file.objects };
  }

  /** Keeps the file's last valid objects. Logs the same error only once. */
  #keepLast(known: KnownFile | undefined, error: string): Omit<KnownFile, 'signature'> {
    const objects = known?.objects ?? [];
    const effect =
      objects.length === 0 ? 'its objects are ignored' : 'the objects of its last valid version stay in effect';
    if (known?.error !== error) this.#log.error(`${error}; ${effect} until the file is corrected`);
    return { objects, error };
  }

  #publish(handler: (event: SourceEvent) => void): void {
    const { set, conflicts } = mergeManifests(new Map([...this.#files].map(([name, { objects }]) => [name, objects])));
    for (const conflict of conflicts) if (!this.#conflicts.has(conflict)) this.#log.warn(conflict);
    this.#conflicts = new Set(conflicts);
    const events = this.#current === undefined ? replacedEvents(set) : eventsBetween(this.#current, set);
    this.#current = set;
    for (const event of events) handler(event);
  }
}
