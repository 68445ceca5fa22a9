import type { Delivery, EventSink, EventSubject, OutgoingEvent } from '../../observe/events.ts';
import type { ApiClient, ApiReply } from './api-client.ts';
import { errorText } from '../../base/text/error-text.ts';
import { listOf, recordOf, textOf } from '../objects/json.ts';
import { readText } from './stream-guard.ts';

export interface EventPosterOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  /** Timeout of a response body in milliseconds; 10,000 by default. */
  readonly bodyMs?: number;
}

/** Events carry kube-proxy's name, so that existing filters match them. */
const CONTROLLER = 'kube-proxy';

/** Length limits of events.k8s.io/v1. */
const MAX_WORD = 128;
const MAX_NOTE = 1_024;
/** Characters of a uid that tell two objects with the same name apart. */
const UID_PART = 8;

/** Writes Events (events.k8s.io/v1) with two verbs that system:node-proxier has: create and patch. */
export class EventPoster implements EventSink {
  readonly #options: EventPosterOptions;

  constructor(options: EventPosterOptions) {
    this.#options = options;
  }

  async create(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery> {
    const uid = await this.#uidOf(event.subject, signal);
    const body = { type: 'application/json', text: JSON.stringify(eventObject(event, this.#options.nodeName, uid)) };
    const reply = await this.#options.client.request({ method: 'POST', path: pathOf(event.subject), signal, body });
    // 409: another node created the same Event, or the response to our first attempt was lost.
    return await this.#delivery(reply, new Map([[409, 'done']]));
  }

  async update(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery> {
    // events.k8s.io/v1 allows updates of the series only.
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
    return { result: 'never', reason: `the API server returned ${status}: ${textOf(answer['message']) ?? ''}` };
  }

  /** Returns the uid by which `kubectl describe` selects Events. For a Node it is the name, as in kube-proxy. */
  async #uidOf({ kind, namespace, name }: EventSubject, signal: AbortSignal): Promise<string | undefined> {
    if (kind === 'Node') return name;
    const query = new URLSearchParams({ fieldSelector: `metadata.name=${name}` });
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services?${query.toString()}`;
    const reply = await this.#options.client.request({ method: 'GET', path, signal });
    const answer = await this.#read(reply);
    const [item] = reply.ok && reply.status === 200 ? listOf(answer?.['items']) : [];
    return textOf(recordOf(recordOf(item)['metadata'])['uid']);
  }

  /** Reads the whole response, so that the connection can be reused; undefined if a success is not valid JSON. */
  async #read(reply: ApiReply): Promise<Readonly<Record<string, unknown>> | undefined> {
    if (!reply.ok) return undefined;
    try {
      const text = await readText(reply.body, this.#options.bodyMs ?? 10_000);
      return reply.status < 300 || text.startsWith('{') ? recordOf(JSON.parse(text)) : { message: text };
    } catch (error) {
      return reply.status < 300 ? undefined : { message: errorText(error) };
    }
  }
}

/** Events about cluster-scoped objects are in namespace "default". */
function namespaceOf({ namespace }: EventSubject): string {
  return namespace === '' ? 'default' : namespace;
}

function pathOf(subject: EventSubject): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespaceOf(subject))}/events`;
}

/** Formats a time as metav1.MicroTime. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

function noteOf({ text }: OutgoingEvent): string {
  // The API server limits the length in bytes, not characters.
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

/** Returns the name of a shared Event. The Event of a deleted object must not take the name of its successor's. */
function sharedName(name: string, uid: string | undefined): string {
  return uid === undefined ? name : `${name}.${uid.slice(0, UID_PART)}`;
}

function eventObject(event: OutgoingEvent, nodeName: string, uid: string | undefined): unknown {
  const { name, subject, text, firstAt, count } = event;
  const { kind } = subject;
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: text.shared === true ? sharedName(name, uid) : name, namespace: namespaceOf(subject) },
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
      // JSON.stringify omits what is undefined.
      namespace: subject.namespace || undefined,
      name: subject.name,
      uid,
    },
    series: count > 1 ? seriesOf(event) : undefined,
  };
}
