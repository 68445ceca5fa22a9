import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { errorCode, errorText } from '../base/text/error-text.ts';
import type { ErrorReply } from '../explain/replies.ts';
import { UsageError } from './usage-error.ts';

/** Milliseconds to wait for a reply: longer than the daemon's own limit for a question. */
const MOST_MS = 60_000;

/** No daemon runs on this node, or it has another socket. */
export class NoDaemonError extends UsageError {}

/**
 * Asks the running daemon. Throws a NoDaemonError if no daemon runs, and another UsageError if it does not reply.
 */
export async function ask<R extends object>(socketPath: string, path: string): Promise<R> {
  let text: string;
  let status: number | undefined;
  try {
    const sent = request({ socketPath, path, host: 'localhost', signal: AbortSignal.timeout(MOST_MS) }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    status = response.statusCode;
    response.setEncoding('utf8');
    text = '';
    for await (const chunk of response) text += String(chunk);
  } catch (error) {
    throw unreachable(error, socketPath);
  }
  const reply = parsed(text);
  if (reply === undefined) throw new UsageError(`what listens at ${socketPath} is not kube-ipvs-proxy`);
  if (status !== 200) throw new UsageError((reply as ErrorReply).message);
  return reply as R;
}

/** Asks the running daemon a question that only it can answer. `question` names it in the error message. */
export async function askDaemon<R extends object>(question: string, socketPath: string, path: string): Promise<R> {
  try {
    return await ask<R>(socketPath, path);
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw error;
    throw new UsageError(
      `${error.message}, and ${question} needs it, because it alone knows the Services: start it, or give its ` +
        '--query-socket; status, top and explain IP:PORT do without a daemon',
    );
  }
}

function unreachable(error: unknown, socketPath: string): UsageError {
  const code = errorCode(error) ?? '';
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return new NoDaemonError(`no daemon listens at ${socketPath}`);
  if (code === 'EACCES' || code === 'EPERM') {
    return new UsageError(`${socketPath} may be read by root only: run this as root, or with kubectl exec`);
  }
  return new UsageError(`the daemon at ${socketPath} does not answer: ${errorText(error)}`);
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
