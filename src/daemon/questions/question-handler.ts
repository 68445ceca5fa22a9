import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorText } from '../../base/text/error-text.ts';
import { REPLY_API_VERSION, type ErrorReply } from '../../explain/replies.ts';
import { type HttpHandler, answer, pathOf, queryOf } from '../../observe/http-listener.ts';
import { QuestionError } from './question-error.ts';
import { QuestionQueue } from './question-queue.ts';

/**
 * Returns a reply as a plain object. Stops with the signal's reason when nobody waits for the reply any more. `askedAt`
 * is when the question arrived (performance.now()).
 */
export type Answerer = (query: URLSearchParams, signal: AbortSignal, askedAt: number) => Promise<object>;

/** Milliseconds after which a question is given up. */
const MOST_MS = 30_000;
/** Maximum number of unread bytes of all replies together. */
const MOST_UNREAD_BYTES = 32 * 1024 * 1024;

/** Returns the handler of the query socket: GET of the paths of `answerers`, replied to with JSON. */
export function questionHandler(answerers: Readonly<Record<string, Answerer>>): HttpHandler {
  const queue = new QuestionQueue();
  const unread = new Set<ServerResponse>();
  return async (request, response) => {
    const askedAt = performance.now();
    const answerer = Object.hasOwn(answerers, pathOf(request)) ? answerers[pathOf(request)] : undefined;
    if (request.method !== 'GET') return refuse(response, 405, 'only GET is answered: nothing can be changed here');
    if (answerer === undefined) return refuse(response, 404, `want one of ${Object.keys(answerers).join(', ')}`);
    const signal = AbortSignal.any([AbortSignal.timeout(MOST_MS), closedSignal(response)]);
    try {
      const reply = await queue.run(() => answerer(queryOf(request), signal, askedAt), signal);
      send(response, 200, reply);
      return makeRoom(unread, response);
    } catch (error) {
      if (error instanceof QuestionError) return refuse(response, error.status, error.message);
      return refuse(response, 503, signal.aborted ? `no answer within ${MOST_MS / 1_000} s` : errorText(error));
    } finally {
      // A body has no meaning here. Node.js would read it to its end before the next request.
      endWith(request, response);
    }
  };
}

function closedSignal(response: ServerResponse): AbortSignal {
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  return closed.signal;
}

/**
 * Ends the oldest replies whose unread bytes are too many together with that of this one. Clients are on this machine, and
 * read at once; those that do not would fill the memory.
 */
function makeRoom(unread: Set<ServerResponse>, newest: ServerResponse): void {
  unread.add(newest);
  newest.once('close', () => unread.delete(newest));
  let bytes = Array.from(unread).reduce((sum, { writableLength }) => sum + writableLength, 0);
  for (const response of unread) {
    if (bytes <= MOST_UNREAD_BYTES || response === newest) return;
    bytes -= response.writableLength;
    response.destroy();
  }
}

function endWith(request: IncomingMessage, response: ServerResponse): void {
  if (!request.complete) response.once('close', () => request.socket.destroy());
}

function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, { apiVersion: REPLY_API_VERSION, kind: 'Error', message } satisfies ErrorReply);
}

function send(response: ServerResponse, status: number, reply: object): void {
  if (!response.destroyed) answer(response, status, 'application/json', `${JSON.stringify(reply)}\n`);
}
