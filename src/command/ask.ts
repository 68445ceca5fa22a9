import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { errorCode, errorText } from '../base/error-text.ts';
import type { ErrorReply } from '../explain/replies.ts';
import { UsageError } from './usage-error.ts';

/** Longer than the daemon works on a question. */
const MOST_MS = 60_000;

/** Asks the running daemon. Throws a UsageError if no daemon runs, or if it does not reply. */
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
    throw new UsageError(unreachable(error, socketPath));
  }
  const reply = parsed(text);
  if (reply === undefined) throw new UsageError(`what listens at ${socketPath} is not kube-ipvs-proxy`);
  if (status !== 200) throw new UsageError((reply as ErrorReply).message);
  return reply as R;
}

function unreachable(error: unknown, socketPath: string): string {
  const code = errorCode(error) ?? '';
  if (code === 'ENOENT' || code === 'ECONNREFUSED') {
    return `no daemon listens at ${socketPath}: it does not run on this node, or has another --query-socket`;
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return `${socketPath} may be read by root only: run this as root, or with kubectl exec`;
  }
  return `the daemon at ${socketPath} does not answer: ${errorText(error)}`;
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
