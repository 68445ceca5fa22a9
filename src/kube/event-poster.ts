import type { Delivery, EventSink, EventSubject, OutgoingEvent } from '../observe/events.ts';
import type { ApiClient, ApiReply } from './api-client.ts';
import { errorText } from './error-text.ts';
import { listOf, recordOf, textOf } from './json.ts';
import { readText } from './stream-guard.ts';

export interface EventPosterOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  /** Milliseconds that an answer may pause. */
  readonly idleMs?: number;
}

/** The name that kube-proxy has in Events, so that whoever looks for them finds ours. */
const CONTROLLER = 'kube-proxy';

/** Lengths that events.k8s.io/v1 accepts. */
const MAX_WORD = 128;
const MAX_NOTE = 1_024;

/** Writes Events (events.k8s.io/v1) to the API server: create and patch, as system:node-proxier may. */
export class EventPoster implements EventSink {
  readonly #options: EventPosterOptions;

  constructor(options: EventPosterOptions) {
    this.#options = options;
  }

  async create(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery> {
    const uid = await this.#uidOf(event.subject, signal);
    const body = { type: 'application/json', text: JSON.stringify(eventObject(event, this.#options.nodeName, uid)) };
    const reply = await this.#options.client.request({ method: 'POST', path: pathOf(event.subject), signal, body });
    // 409: a node that says the same was first, or the answer to our first attempt was lost.
    return await this.#delivery(reply, new Map([[409, 'done']]));
  }

  async update(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery> {
    // Nothing else of an Event may change in events.k8s.io/v1: it keeps the note that it was created with.
    const body = { type: 'application/merge-patch+json', text: JSON.stringify({ series: seriesOf(event) }) };
    const path = `${pathOf(event.subject)}/${encodeURIComponent(event.name)}`;
    const reply = await this.#options.client.request({ method: 'PATCH', path, signal, body });
    return await this.#delivery(reply, new Map([[404, 'gone']]));
  }

  async #delivery(reply: ApiReply, known: ReadonlyMap<number, 'done' | 'gone'>): Promise<Delivery> {
    const answer = await this.#read(reply);
    if (!reply.ok || answer === undefined) return { result: 'later' };
    const { status } = reply;
    if (status < 300) return { result: 'done' };
    const result = known.get(status);
    if (result !== undefined) return { result };
    if (status === 401 || status === 429 || status >= 500) return { result: 'later' };
    return { result: 'never', reason: `the API server answers ${status}: ${textOf(answer['message']) ?? ''}` };
  }

  /** A Node's uid is its name here, as the kubelet and kube-proxy have it. A Service's is looked up, for `kubectl describe`. */
  async #uidOf({ kind, namespace, name }: EventSubject, signal: AbortSignal): Promise<string | undefined> {
    if (kind === 'Node') return name;
    const query = new URLSearchParams({ fieldSelector: `metadata.name=${name}` });
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services?${query.toString()}`;
    const reply = await this.#options.client.request({ method: 'GET', path, signal });
    const answer = await this.#read(reply);
    const [item] = reply.ok && reply.status === 200 ? listOf(answer?.['items']) : [];
    return textOf(recordOf(recordOf(item)['metadata'])['uid']);
  }

  /** Always to its end: the connection is used again. undefined when it broke off or is no JSON. */
  async #read(reply: ApiReply): Promise<Readonly<Record<string, unknown>> | undefined> {
    if (!reply.ok) return undefined;
    try {
      const text = await readText(reply.body, this.#options.idleMs ?? 10_000);
      return reply.status < 300 || text.startsWith('{') ? recordOf(JSON.parse(text)) : { message: text };
    } catch (error) {
      return reply.status < 300 ? undefined : { message: errorText(error) };
    }
  }
}

/** Events of objects without a namespace live in "default". */
function namespaceOf({ namespace }: EventSubject): string {
  return namespace === '' ? 'default' : namespace;
}

function pathOf(subject: EventSubject): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespaceOf(subject))}/events`;
}

/** metav1.MicroTime */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

function noteOf({ text }: OutgoingEvent): string {
  // Bytes, not characters, are counted.
  const bytes = Buffer.from(text.note);
  return bytes.length <= MAX_NOTE
    ? text.note
    : bytes
        .subarray(0, MAX_NOTE - 3)
        .toString()
        .replace(/\uFFFD$/, '');
}

function seriesOf({ count, lastAt }: OutgoingEvent): Readonly<Record<string, unknown>> {
  return { count, lastObservedTime: microTime(lastAt) };
}

function eventObject(event: OutgoingEvent, nodeName: string, uid: string | undefined): unknown {
  const { name, subject, text, firstAt, count } = event;
  const { kind } = subject;
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name, namespace: namespaceOf(subject) },
    eventTime: microTime(firstAt),
    reportingController: CONTROLLER,
    reportingInstance: `${CONTROLLER}-${nodeName}`.slice(0, MAX_WORD),
    type: text.type,
    reason: text.reason.slice(0, MAX_WORD),
    action: text.action.slice(0, MAX_WORD),
    note: noteOf(event),
    regarding: {
      apiVersion: 'v1',
      kind,
      ...(subject.namespace === '' ? {} : { namespace: subject.namespace }),
      name: subject.name,
      ...(uid === undefined ? {} : { uid }),
    },
    ...(count > 1 ? { series: seriesOf(event) } : {}),
  };
}
