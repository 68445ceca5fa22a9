import { constants } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { MessageWriter, SEGMENT_LIMITS, type SegmentLimits } from '../../netlink/codec/message-writer.ts';
import type { SocketConnection } from '../../netlink/transport/connection.ts';
import { NetlinkError } from '../../netlink/error.ts';
import { type NetlinkMessage, answerOf, interruptedDumps, messages, refusal } from '../../netlink/netlink-message.ts';
import { type RefusedItem, refusalOf, refusalsOf } from './netlink-failure.ts';
import { chunks, forEachSliced } from './slices.ts';

/** Appends exactly one message for the item, and ends it. */
export type WriteMessage<T> = (writer: MessageWriter, item: T) => void;

export type BatchConnection = Pick<SocketConnection, 'sequence' | 'transact' | 'maxSegment' | 'receiveBuffer'>;

/**
 * Each transaction costs a switch to the sending thread. Encoding two segments takes a few ms
 * (lab/notes/profiles-netlink.md).
 */
const SEGMENTS_PER_TRANSACTION = 2;
/** Maximum dumps in one transaction, because their replies are held in memory twice. */
const QUESTIONS_PER_TRANSACTION = 500;
/** Messages in a transaction after replies were lost: even if all are errors, the replies fit in any receive buffer. */
const CAUTIOUS_MESSAGES = 32;
/** Bytes of the receive buffer for one small reply: the kernel allocates a page or two for each. */
const REPLY_COST = 10 * 1024;
/** Maximum number of attempts for a dump, because changes may interrupt each of them. */
const DUMP_ATTEMPTS = 8;

/**
 * Runs changes on one socket, one message per item. A refused message does not stop the others. Returns the refusals in
 * order. Changes must be idempotent: if replies are lost, the batch is run again in smaller ones. A system call sends
 * `perSegment` messages and occupies its CPU on a kernel without preemption, so pass a smaller number for slow changes.
 */
export async function runBatch<T>(
  connection: BatchConnection,
  items: readonly T[],
  write: WriteMessage<T>,
  onSend: (messages: number) => void,
  perSegment = SEGMENT_LIMITS.messages,
): Promise<RefusedItem<T>[]> {
  return await runAll({ connection, write, onSend, perSegment }, items, perSegment * SEGMENTS_PER_TRANSACTION);
}

interface Changes<T> {
  readonly connection: BatchConnection;
  readonly write: WriteMessage<T>;
  readonly onSend: (messages: number) => void;
  readonly perSegment: number;
}

/** Runs a transaction for every `size` items, in order. Each is encoded while the kernel runs the previous one. */
async function runAll<T>(changes: Changes<T>, items: readonly T[], size: number): Promise<RefusedItem<T>[]> {
  const refused: RefusedItem<T>[] = [];
  let before: Promise<readonly RefusedItem<T>[]> = Promise.resolve([]);
  await withWriter(changes.connection, changes.perSegment, async (writer, limits) => {
    for (const batch of chunks(items, size)) {
      writer.reset(limits);
      for (const item of batch) changes.write(writer, item);
      for (const refusal of await before) refused.push(refusal);
      before = runPiece(changes, batch, writer);
      before.catch(ignore);
    }
    for (const refusal of await before) refused.push(refusal);
  });
  return refused;
}

/** Sends a batch; if replies are lost, in smaller batches. The writer may be reused when the promise was returned. */
async function runPiece<T>(
  changes: Changes<T>,
  items: readonly T[],
  writer: MessageWriter,
): Promise<readonly RefusedItem<T>[]> {
  try {
    return await send(changes, items, writer);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    if (error.kind !== 'lost' || items.length <= CAUTIOUS_MESSAGES) return refusalsOf(items, error);
  }
  return await runAll(changes, items, CAUTIOUS_MESSAGES);
}

async function send<T>(
  { connection, onSend }: Changes<T>,
  items: readonly T[],
  writer: MessageWriter,
): Promise<readonly RefusedItem<T>[]> {
  onSend(items.length);
  const { reply, firstSequence } = await answersTo(connection, items, writer);
  // Yields to the event loop even if the reply was immediate.
  await setImmediate();
  const refused: RefusedItem<T>[] = [];
  for (const message of messages(reply)) {
    const answer = answerOf(message);
    const index = message.sequence - firstSequence;
    if (answer === undefined || answer.errno === 0 || index < 0 || index >= items.length) continue;
    refused.push(refusalOf(items[index] as T, answer, message));
  }
  return refused;
}

/** Writers kept for reuse with their buffers: allocating new pages costs more than encoding. */
const spareWriters: MessageWriter[] = [];
const MAX_SPARE_WRITERS = 4;

async function withWriter<R>(
  { maxSegment }: BatchConnection,
  perSegment: number,
  use: (writer: MessageWriter, limits: SegmentLimits) => Promise<R>,
): Promise<R> {
  const limits = { messages: perSegment, bytes: Math.min(SEGMENT_LIMITS.bytes, maxSegment) };
  const writer = spareWriters.pop() ?? new MessageWriter();
  try {
    return await use(writer, limits);
  } finally {
    if (spareWriters.length < MAX_SPARE_WRITERS) spareWriters.push(writer);
  }
}

export interface Question<T, R> {
  /** The name of the message in the kernel's header. */
  readonly operation: string;
  readonly write: WriteMessage<T>;
  /** Decodes one message of the reply to an item. A result of undefined is left out. */
  readonly read: (message: NetlinkMessage, item: T) => R | undefined;
  /** Errnos that mean that the item does not exist. On any other errno, the call rejects. */
  readonly absent?: ReadonlySet<number>;
}

/**
 * Reads each item by a request or a dump, many in one transaction, and returns what was read. Discards a dump that a
 * change interrupted, and requests it again.
 */
export async function askAll<T, R>(
  connection: BatchConnection,
  items: readonly T[],
  question: Question<T, R>,
): Promise<R[]> {
  const found: R[] = [];
  await withWriter(connection, fittingQuestions(connection), async (writer, limits) => {
    const ask = (batch: readonly T[]): Promise<Answers<T>> => {
      writer.reset(limits);
      for (const item of batch) question.write(writer, item);
      return answersTo(connection, batch, writer);
    };
    const batches = [...chunks(items, QUESTIONS_PER_TRANSACTION)];
    let next = batches[0] === undefined ? undefined : ask(batches[0]);
    for (let at = 1; next !== undefined; at++) {
      const answers: Answers<T> = await next;
      // Replies are read while the kernel runs the next batch.
      const batch = batches[at];
      next = batch === undefined ? undefined : ask(batch);
      next?.catch(ignore);
      let open = await readAnswers(answers, question, found);
      for (let attempt = 2; open.length > 0; attempt++) {
        if (attempt > DUMP_ATTEMPTS) throw interrupted(question.operation);
        open = await readAnswers(await ask(open), question, found);
      }
    }
  });
  return found;
}

const ignore = (): void => undefined;

interface Answers<T> {
  readonly items: readonly T[];
  readonly reply: Uint8Array;
  readonly firstSequence: number;
}

async function answersTo<T>(
  connection: BatchConnection,
  items: readonly T[],
  writer: MessageWriter,
): Promise<Answers<T>> {
  const { bytes, segments, firstSequence } = writer.finish(connection.sequence(items.length));
  return { items, reply: await connection.transact(bytes, segments), firstSequence };
}

/** Adds what the replies contain to `found`. Returns the items whose dumps were interrupted. */
async function readAnswers<T, R>(
  { items, reply, firstSequence }: Answers<T>,
  { operation, read, absent = new Set() }: Question<T, R>,
  found: R[],
): Promise<readonly T[]> {
  const again = interruptedDumps(reply);
  await forEachSliced(messages(reply), (message) => {
    const index = message.sequence - firstSequence;
    if (index < 0 || index >= items.length || again.has(message.sequence)) return;
    const answer = answerOf(message);
    if (answer === undefined) {
      const result = read(message, items[index] as T);
      if (result !== undefined) found.push(result);
    } else if (answer.errno !== 0 && !absent.has(answer.errno)) throw refusal(operation, answer);
  });
  release(reply);
  return items.filter((_, index) => again.has(firstSequence + index));
}

/**
 * Frees the memory of a reply at once; its messages can no longer be read. Dumps are megabytes outside of the heap, and
 * tens of them would accumulate before the next garbage collection.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (!(buffer instanceof SharedArrayBuffer) && buffer.byteLength === byteLength) buffer.transfer(0);
}

function interrupted(operation: string): NetlinkError {
  const text = `the dump was interrupted by changes ${DUMP_ATTEMPTS} times`;
  return new NetlinkError({ kind: 'lost', operation, errno: constants.errno.EINTR, text });
}

/** Returns how many requests fit in a segment: each gets a reply, and all of them must fit in the receive buffer. */
function fittingQuestions({ receiveBuffer }: BatchConnection): number {
  return Math.max(1, Math.min(SEGMENT_LIMITS.messages, Math.floor(receiveBuffer / REPLY_COST)));
}
