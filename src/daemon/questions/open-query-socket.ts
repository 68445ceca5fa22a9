import type { Log } from '../../observe/log/log.ts';
import { type AnswererOptions, answerers } from './answerers.ts';
import { QuerySocket } from './query-socket.ts';
import { questionHandler } from './question-handler.ts';

/** Opens the socket of --query-socket; "" means none. Returns a function that closes it. */
export async function openQuerySocket(
  path: string,
  { log, ...options }: AnswererOptions & { readonly log: Log },
): Promise<() => Promise<void>> {
  if (path === '') return () => Promise.resolve();
  const socket = new QuerySocket({ path, handler: questionHandler(answerers(options)), log: log.child('query') });
  await socket.start();
  return () => socket.close();
}
