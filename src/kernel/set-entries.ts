import { constants } from 'node:os';
import { type IpsetEntry, addEntries, deleteEntries } from '../netlink/family/ipset/entry.ts';
import { decodeFailedEntry } from '../netlink/family/ipset/failed-entry.ts';
import type { IpSet, IpSetEntry } from '../state/ip-set.ts';
import { type BatchConnection, runBatch } from './batch.ts';
import { codeOf, textOf } from './errno.ts';
import type { Refusal } from './netlink-failure.ts';
import { encodableEntry } from './set-entry.ts';
import { chunks } from './slices.ts';

/** An entry to add to a set or delete from it, and whose wish that is. */
export interface EntryChange<T> {
  readonly verb: 'add' | 'delete';
  readonly set: IpSet;
  readonly entry: IpSetEntry;
  readonly source: T;
}

/** What the kernel said of an entry that it refused. */
export interface EntryRefusal<T> {
  readonly source: T;
  readonly errno: number;
  readonly code: string;
  readonly text: string;
}

/** So many of the longest entries (IPv6, three parts: 84 bytes) stay below the codec's limit of 16 KiB for a message. */
const ENTRIES_PER_MESSAGE = 150;

/** So few are packed and encoded in one go that the event loop hardly notices. */
const ENTRIES_PER_TRANSACTION = 10 * ENTRIES_PER_MESSAGE;

/** Changes of one set and one verb: one message. */
interface EntryMessage<T> {
  readonly verb: 'add' | 'delete';
  readonly set: IpSet;
  readonly entries: readonly IpsetEntry[];
  readonly sources: readonly T[];
}

/**
 * Adds or deletes entries, many in one message. Within a message the kernel stops at the first entry that it refuses: those
 * behind it are tried once more, each in a message of its own. Entries of different sets may be done in another order.
 */
export async function changeEntries<T>(
  connection: BatchConnection,
  protocol: number,
  changes: readonly EntryChange<T>[],
  onSend: (messages: number) => void,
): Promise<EntryRefusal<T>[]> {
  const failures: EntryRefusal<T>[] = [];
  for (const piece of chunks(changes, ENTRIES_PER_TRANSACTION)) {
    let open = pack(piece);
    while (open.length > 0) {
      const refused = await runBatch(connection, open, (writer, message) => write(writer, protocol, message), onSend);
      open = refused.flatMap((refusal) => sortOut(refusal, failures));
    }
  }
  return failures;
}

function write<T>(
  writer: Parameters<typeof addEntries>[0],
  protocol: number,
  { verb, set, entries }: EntryMessage<T>,
): void {
  const change = verb === 'add' ? addEntries : deleteEntries;
  const next = change(writer, protocol, set.name, entries);
  if (next !== entries.length) throw new RangeError(`${entries.length} entries do not fit into one message`);
}

function pack<T>(changes: readonly EntryChange<T>[]): EntryMessage<T>[] {
  const bySet = Map.groupBy(changes, ({ verb, set }) => `${verb} ${set.name}`);
  return [...bySet.values()].flatMap((group) => {
    const found: EntryMessage<T>[] = [];
    for (let start = 0; start < group.length; start += ENTRIES_PER_MESSAGE) {
      const piece = group.slice(start, start + ENTRIES_PER_MESSAGE);
      const [first] = piece;
      if (first === undefined) continue;
      const entries = piece.map(({ entry }) => encodableEntry(entry));
      found.push({ verb: first.verb, set: first.set, entries, sources: piece.map(({ source }) => source) });
    }
    return found;
  });
}

/** Puts what failed for good among the failures; answers what is to be tried again. */
function sortOut<T>(refusal: Refusal<EntryMessage<T>>, failures: EntryRefusal<T>[]): EntryMessage<T>[] {
  const { item, errno } = refusal;
  const { verb, set, entries, sources } = item;
  if (verb === 'delete' && errno === constants.errno.ENOENT) return [];
  const ownCode = errno >= 4096 ? codeOf(errno, set.type) : refusal.code;
  const failure = { errno, code: ownCode, text: refusal.text === '' ? textOf(ownCode) : refusal.text };
  const failed = refusal.message === undefined ? undefined : decodeFailedEntry(refusal.message);
  if (failed === undefined) {
    for (const source of sources) failures.push({ source, ...failure });
    return [];
  }
  const source = sources[failed];
  if (source !== undefined) failures.push({ source, ...failure });
  return entries.slice(failed + 1).map((entry, index) => ({
    verb,
    set,
    entries: [entry],
    sources: sources.slice(failed + 1 + index, failed + 2 + index),
  }));
}
