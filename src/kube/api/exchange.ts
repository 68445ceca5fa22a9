import type { IncomingMessage } from 'node:http';
import type { Log } from '../../observe/log/log.ts';
import type { ApiClient } from './api-client.ts';
import { errorText } from '../../base/text/error-text.ts';
import { type Failure, failureOfResponse } from './failure.ts';
import type { Interner } from '../objects/interner.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import type { ReflectorTiming } from './reflector-timing.ts';
import type { Resource } from './resource.ts';
import { readBytes } from './stream-guard.ts';

/** The context of a list or a watch of one resource. */
export interface Exchange<T extends { readonly meta: ObjectMeta }> {
  readonly client: ApiClient;
  readonly resource: Resource<T>;
  readonly interner: Interner;
  readonly log: Log;
  readonly timing: ReflectorTiming;
  readonly signal: AbortSignal;
  /** Called at most once for each request, with the reason why nothing has arrived yet. */
  readonly onSlow?: (reason: string) => void;
}

type Parameters = Readonly<Record<string, string | number | boolean | undefined>>;

/** Sends a GET with these parameters and one of the selectors. Returns the body of a response with status 200. */
export async function openGet<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  selector: number,
  parameters: Parameters,
): Promise<IncomingMessage | Failure> {
  const { client, resource, timing, signal, onSlow } = exchange;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...resource.selectors[selector], ...parameters })) {
    if (value !== undefined) query.set(name, String(value));
  }
  const path = `${resource.path}?${query.toString()}`;
  const reply = await client.request({
    method: 'GET',
    path,
    signal,
    isWatch: query.has('watch'),
    readsProtobuf: true,
    ...(onSlow && { onSlow }),
  });
  if (!reply.ok) return { kind: reply.kind, message: reply.message };
  if (reply.status === 200) return reply.body;
  try {
    return failureOfResponse(reply.status, reply.headers, await readBytes(reply.body, timing.listIdleMs));
  } catch (error) {
    return { kind: 'unavailable', message: `status ${reply.status}, and its body cannot be read: ${errorText(error)}` };
  }
}
