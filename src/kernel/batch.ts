import { constants } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { NLM_F_DUMP_INTR } from '../netlink/codec/flags.ts';
import { MessageWriter } from '../netlink/codec/message-writer.ts';
import type { SocketConnection } from '../netlink/connection.ts';
import { NetlinkError } from '../netlink/error.ts';
import { type NetlinkMessage, NLMSG_ERROR, answerOf, messages, refusal } from '../netlink/message.ts';
import { type Refusal, refusalOf, refusalsOf } from './netlink-failure.ts';
import { chunks, forEachSliced } from './slices.ts';

/** Appends exactly one message for the item, and ends it. */
export type WriteMessage<T> = (writer: MessageWriter, item: T) => void;

/** What a batch needs of the socket it runs on. */
export type BatchConnection = Pick<SocketConnection, 'sequence' | 'transact' | 'maxSegment' | 'receiveBuffer'>;

// Encoding so many takes a few milliseconds: the event loop is free in between, and the cost of a transaction is spread thin.
const MESSAGES_PER_TRANSACTION = 1000;
/** After replies were lost: few enough that all of them fit in any receive buffer, even when each is an error. */
const CAUTIOUS_MESSAGES = 32;
const SEGMENT_BYTES = 128 * 1024;
const SEGMENT_MESSAGES = 500;
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
  const refused: Refusal<T>[] = [];
  for (const piece of chunks(items, MESSAGES_PER_TRANSACTION)) {
    refused.push(...(await runPiece(connection, piece, write, onSend, perSegment)));
    if (piece.length === MESSAGES_PER_TRANSACTION) await setImmediate();
  }
  return refused;
}

async function runPiece<T>(
  connection: BatchConnection,
  items: readonly T[],
  write: WriteMessage<T>,
  onSend: (messages: number) => void,
  perSegment: number,
): Promise<Refusal<T>[]> {
  try {
    return await send(connection, items, write, onSend, perSegment);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    if (error.kind !== 'lost' || items.length <= CAUTIOUS_MESSAGES) return refusalsOf(items, error);
  }
  const refused: Refusal<T>[] = [];
  for (const piece of chunks(items, CAUTIOUS_MESSAGES)) {
    refused.push(...(await runPiece(connection, piece, write, onSend, perSegment)));
  }
  return refused;
}

async function send<T>(
  connection: BatchConnection,
  items: readonly T[],
  write: WriteMessage<T>,
  onSend: (messages: number) => void,
  perSegment: number,
): Promise<Refusal<T>[]> {
  const writer = writerFor(connection, perSegment);
  for (const item of items) write(writer, item);
  onSend(items.length);
  const { bytes, segments, firstSequence } = writer.finish(connection.sequence(items.length));
  const reply = await connection.transact(bytes, segments);
  const refused: Refusal<T>[] = [];
  for (const message of messages(reply)) {
    const answer = answerOf(message);
    const index = message.sequence - firstSequence;
    if (answer === undefined || answer.errno === 0 || index < 0 || index >= items.length) continue;
    refused.push(refusalOf(items[index] as T, answer, message));
  }
  return refused;
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
  for (const piece of chunks(items, MESSAGES_PER_TRANSACTION)) {
    let open = piece;
    for (let attempt = 1; open.length > 0; attempt++) {
      if (attempt > DUMP_ATTEMPTS) throw interrupted(question.operation);
      open = await askPiece(connection, open, question);
    }
  }
}

/** Answers the items that must be asked again. */
async function askPiece<T>(
  connection: BatchConnection,
  items: readonly T[],
  { operation, write, read, absent = new Set() }: Question<T>,
): Promise<readonly T[]> {
  const { reply, firstSequence } = await ask(connection, items, write);
  const again = new Set<number>();
  await forEachSliced(messages(reply), ({ type, flags, sequence }) => {
    if (type !== NLMSG_ERROR && (flags & NLM_F_DUMP_INTR) !== 0) again.add(sequence);
  });
  await forEachSliced(messages(reply), (message) => {
    const index = message.sequence - firstSequence;
    if (index < 0 || index >= items.length || again.has(message.sequence)) return;
    const answer = answerOf(message);
    if (answer === undefined) read(message, items[index] as T);
    else if (answer.errno !== 0 && !absent.has(answer.errno)) throw refusal(operation, answer);
  });
  return items.filter((_, index) => again.has(firstSequence + index));
}

function interrupted(operation: string): NetlinkError {
  const text = `the dump was interrupted by changes ${DUMP_ATTEMPTS} times`;
  return new NetlinkError({ kind: 'lost', operation, errno: constants.errno.EINTR, text });
}

async function ask<T>(
  connection: BatchConnection,
  items: readonly T[],
  write: WriteMessage<T>,
): Promise<{ reply: Uint8Array; firstSequence: number }> {
  // Each message is answered here, so the answers of a whole segment must fit in the receive buffer.
  const fitting = Math.max(1, Math.min(SEGMENT_MESSAGES, Math.floor(connection.receiveBuffer / REPLY_COST)));
  const writer = writerFor(connection, fitting);
  for (const item of items) write(writer, item);
  const { bytes, segments, firstSequence } = writer.finish(connection.sequence(items.length));
  return { reply: await connection.transact(bytes, segments), firstSequence };
}

function writerFor({ maxSegment }: BatchConnection, perSegment: number): MessageWriter {
  return new MessageWriter({ messages: perSegment, bytes: Math.min(SEGMENT_BYTES, maxSegment) });
}
