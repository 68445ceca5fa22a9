import { constants } from 'node:os';
import type { MessageWriter } from '../../netlink/codec/message-writer.ts';
import { decodeFailedEntry, writeEntries } from '../../netlink/family/ipset/entry-message.ts';
import type { IpSet, IpSetEntry } from '../../state/ip-set.ts';
import { type BatchConnection, runBatch } from '../linux/batch.ts';
import { codeOf, textOf } from '../errno.ts';
import type { RefusedItem } from '../linux/netlink-failure.ts';
import { encodableEntry } from './set-entry.ts';
import { chunks } from '../linux/slices.ts';

/** An entry to add to its set, or to delete from it. */
export interface EntryChange {
  readonly set: IpSet;
  readonly entry: IpSetEntry;
}

/**
 * The kernel copies the whole message into an error reply, so messages must be small. With this number, the overhead of
 * a message is negligible, and the longest entries (IPv6, three parts: 84 bytes) take 13 KiB.
 */
const ENTRIES_PER_MESSAGE = 150;

const MESSAGES_PER_SEGMENT = 5;

type Verb = 'add' | 'delete';

interface EntryMessage<T> {
  readonly set: IpSet;
  readonly changes: readonly T[];
}

/**
 * Adds or deletes entries, many in one message. The kernel stops at the first entry of a message that it refuses: the
 * entries after it are retried, each in its own message. Entries of different sets may be processed in another order.
 */
export async function changeEntries<T extends EntryChange>(
  connection: BatchConnection,
  protocol: number,
  verb: Verb,
  changes: readonly T[],
  onSend: (messages: number) => void,
): Promise<RefusedItem<T>[]> {
  const failures: RefusedItem<T>[] = [];
  const write = (writer: MessageWriter, message: EntryMessage<T>): number => {
    const entries = message.changes.map(({ entry }) => encodableEntry(entry));
    return writeEntries(writer, protocol, verb, message.set.name, entries);
  };
  let open = pack(changes);
  while (open.length > 0) {
    const refused = await runBatch(connection, open, write, onSend, MESSAGES_PER_SEGMENT);
    open = refused.flatMap((refusal) => sortOut(verb, refusal, failures));
  }
  return failures;
}

function pack<T extends EntryChange>(changes: readonly T[]): EntryMessage<T>[] {
  const bySet = Map.groupBy(changes, ({ set }) => set.name);
  return [...bySet.values()].flatMap((group) =>
    Array.from(chunks(group, ENTRIES_PER_MESSAGE), (batch) => ({ set: (batch[0] as T).set, changes: batch })),
  );
}

/** Adds final failures to `failures`; returns the messages to retry. */
function sortOut<T extends EntryChange>(
  verb: Verb,
  { item, errno, code, text, message }: RefusedItem<EntryMessage<T>>,
  failures: RefusedItem<T>[],
): EntryMessage<T>[] {
  const { set, changes } = item;
  if (verb === 'delete' && errno === constants.errno.ENOENT) return [];
  const ownCode = errno >= 4096 ? codeOf(errno, set.type) : code;
  const failure = { errno, code: ownCode, text: text === '' ? textOf(ownCode) : text };
  const failed = message === undefined ? undefined : decodeFailedEntry(message);
  const culprit = failed === undefined ? undefined : changes[failed];
  if (failed === undefined || culprit === undefined) {
    for (const changed of changes) failures.push({ item: changed, ...failure });
    return [];
  }
  failures.push({ item: culprit, ...failure });
  return changes.slice(failed + 1).map((change) => ({ set, changes: [change] }));
}
