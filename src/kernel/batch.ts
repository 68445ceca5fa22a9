import { constants } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { MessageWriter, type SegmentLimits } from '../netlink/codec/message-writer.ts';
import type { SocketConnection } from '../netlink/connection.ts';
import { NetlinkError } from '../netlink/error.ts';
import { type NetlinkMessage, answerOf, interruptedDumps, messages, refusal } from '../netlink/message.ts';
import { type Refusal, refusalOf, refusalsOf } from './netlink-failure.ts';
import { chunks, forEachSliced } from './slices.ts';

/** Appends exactly one message for the item, and ends it. */
export type WriteMessage<T> = (writer: MessageWriter, item: T) => void;

/** What a batch needs of the socket it runs on. */
export type BatchConnection = Pick<SocketConnection, 'sequence' | 'transact' | 'maxSegment' | 'receiveBuffer'>;

/** What the kernel runs in one system call: past a few hundred messages it no longer gets cheaper by the message. */
const SEGMENT_BYTES = 128 * 1024;
const SEGMENT_MESSAGES = 500;
/** So many cost one hop to the thread that sends, and encoding them takes a few milliseconds (docs/profiles-netlink.md). */
const SEGMENTS_PER_TRANSACTION = 2;
/** Dumps in one transaction: their answers are held in memory, twice. */
const QUESTIONS_PER_TRANSACTION = 500;
/** After replies were lost: few enough that all of them fit in any receive buffer, even when each is an error. */
const CAUTIOUS_MESSAGES = 32;
/** What one small reply takes of a receive buffer: the kernel allots a page or two for each, whatever its size. */
const REPLY_COST = 10 * 1024;
/** Dumps of a table that changes all the time are given up after so many. */
const DUMP_ATTEMPTS = 8;

/**
 * Runs the same kind of change, or different ones, on one socket: each item is one message, and none stops the others.
 * Answers those that the kernel refused, in order. Changes must be idempotent in effect once their caller has read the refusals:
 * where replies were lost the piece is run again in smaller ones. `perSegment`: how many messages the kernel runs in one system
 * call, which on a kernel without preemption keeps its CPU for as long; fewer for changes that are slow.
 */
export async function runBatch<T>(
  connection: BatchConnection,
  items: readonly T[],
  write: WriteMessage<T>,
  onSend: (messages: number) => void,
  perSegment = SEGMENT_MESSAGES,
): Promise<Refusal<T>[]> {
  return await new Batch(connection, write, onSend, perSegment).run(items, perSegment * SEGMENTS_PER_TRANSACTION);
}

class Batch<T> {
  readonly #connection: BatchConnection;
  readonly #write: WriteMessage<T>;
  readonly #onSend: (messages: number) => void;
  readonly #perSegment: number;

  constructor(
    connection: BatchConnection,
    write: WriteMessage<T>,
    onSend: (messages: number) => void,
    perSegment: number,
  ) {
    this.#connection = connection;
    this.#write = write;
    this.#onSend = onSend;
    this.#perSegment = perSegment;
  }

  /** A transaction for every `size` items, one after the other; each is encoded while the kernel works on the one before. */
  async run(items: readonly T[], size: number): Promise<Refusal<T>[]> {
    const refused: Refusal<T>[] = [];
    let before: Promise<readonly Refusal<T>[]> = Promise.resolve([]);
    await withWriter(this.#connection, this.#perSegment, async (writer, limits) => {
      for (const piece of chunks(items, size)) {
        writer.reset(limits);
        for (const item of piece) this.#write(writer, item);
        for (const refusal of await before) refused.push(refusal);
        before = this.#runPiece(piece, writer);
        before.catch(ignore);
      }
      for (const refusal of await before) refused.push(refusal);
    });
    return refused;
  }

  /** The writer is free for other things when this returns its promise. */
  async #runPiece(items: readonly T[], writer: MessageWriter): Promise<readonly Refusal<T>[]> {
    try {
      return await this.#send(items, writer);
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      if (error.kind !== 'lost' || items.length <= CAUTIOUS_MESSAGES) return refusalsOf(items, error);
    }
    return await this.run(items, CAUTIOUS_MESSAGES);
  }

  async #send(items: readonly T[], writer: MessageWriter): Promise<readonly Refusal<T>[]> {
    this.#onSend(items.length);
    const { bytes, segments, firstSequence } = writer.finish(this.#connection.sequence(items.length));
    const reply = await this.#connection.transact(bytes, segments);
    // Whatever answers at once: the event loop turns.
    await setImmediate();
    const refused: Refusal<T>[] = [];
    for (const message of messages(reply)) {
      const answer = answerOf(message);
      const index = message.sequence - firstSequence;
      if (answer === undefined || answer.errno === 0 || index < 0 || index >= items.length) continue;
      refused.push(refusalOf(items[index] as T, answer, message));
    }
    return refused;
  }
}

/** Writers with their buffers: fresh pages cost more than what is written into them. */
const spareWriters: MessageWriter[] = [];
const MAX_SPARE_WRITERS = 4;

async function withWriter<R>(
  { maxSegment }: BatchConnection,
  perSegment: number,
  use: (writer: MessageWriter, limits: SegmentLimits) => Promise<R>,
): Promise<R> {
  const limits = { messages: perSegment, bytes: Math.min(SEGMENT_BYTES, maxSegment) };
  const writer = spareWriters.pop() ?? new MessageWriter();
  try {
    return await use(writer, limits);
  } finally {
    if (spareWriters.length < MAX_SPARE_WRITERS) spareWriters.push(writer);
  }
}

export interface Question<T> {
  /** The name of the message in the kernel's header. */
  readonly operation: string;
  readonly write: WriteMessage<T>;
  /** Reads one message of the answer to an item. */
  readonly read: (message: NetlinkMessage, item: T) => void;
  /** Errors that mean "there is none"; others reject. */
  readonly absent?: ReadonlySet<number>;
}

/**
 * Asks for each item, with a single request or a dump, many in one transaction. A dump that a change has interrupted is not
 * read but asked again.
 */
export async function askAll<T>(
  connection: BatchConnection,
  items: readonly T[],
  question: Question<T>,
): Promise<void> {
  await withWriter(connection, fittingQuestions(connection), async (writer, limits) => {
    const ask = (piece: readonly T[]): Promise<Answers<T>> => {
      writer.reset(limits);
      for (const item of piece) question.write(writer, item);
      return answersTo(connection, piece, writer);
    };
    const pieces = [...chunks(items, QUESTIONS_PER_TRANSACTION)];
    let next = pieces[0] === undefined ? undefined : ask(pieces[0]);
    for (let at = 1; next !== undefined; at++) {
      const answers: Answers<T> = await next;
      // Read while the kernel answers the questions of the next piece.
      const piece = pieces[at];
      next = piece === undefined ? undefined : ask(piece);
      next?.catch(ignore);
      let open = await readAnswers(answers, question);
      for (let attempt = 2; open.length > 0; attempt++) {
        if (attempt > DUMP_ATTEMPTS) throw interrupted(question.operation);
        open = await readAnswers(await ask(open), question);
      }
    }
  });
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

/** Answers the items that must be asked again. */
async function readAnswers<T>(
  { items, reply, firstSequence }: Answers<T>,
  { operation, read, absent = new Set() }: Question<T>,
): Promise<readonly T[]> {
  const again = interruptedDumps(reply);
  await forEachSliced(messages(reply), (message) => {
    const index = message.sequence - firstSequence;
    if (index < 0 || index >= items.length || again.has(message.sequence)) return;
    const answer = answerOf(message);
    if (answer === undefined) read(message, items[index] as T);
    else if (answer.errno !== 0 && !absent.has(answer.errno)) throw refusal(operation, answer);
  });
  release(reply);
  return items.filter((_, index) => again.has(firstSequence + index));
}

/**
 * Gives the memory of a reply back at once: its messages cannot be read any more. Dumps are megabytes outside of the heap, and tens of
 * them would gather before the heap itself is due for a collection.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (!(buffer instanceof SharedArrayBuffer) && buffer.byteLength === byteLength) buffer.transfer(0);
}

function interrupted(operation: string): NetlinkError {
  const text = `the dump was interrupted by changes ${DUMP_ATTEMPTS} times`;
  return new NetlinkError({ kind: 'lost', operation, errno: constants.errno.EINTR, text });
}

/** Each question is answered, so the answers to a whole segment must fit in the receive buffer. */
function fittingQuestions({ receiveBuffer }: BatchConnection): number {
  return Math.max(1, Math.min(SEGMENT_MESSAGES, Math.floor(receiveBuffer / REPLY_COST)));
}
