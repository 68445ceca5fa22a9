import { type Message, inner, integer, message, repeatedText, text } from './message-table.ts';

// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto

class TimeDraft {
  /** Since 1970; absent from the zero time of Go, which is null in JSON. */
  seconds: number | undefined;
}

const TIME = message('Time', TimeDraft, {
  1: integer((time, seconds) => (time.seconds = seconds)),
});

/** Years 0 to 9999, which RFC 3339 can write. */
const FIRST_SECOND = -62_167_219_200;
const LAST_SECOND = 253_402_300_799;

function rfc3339({ seconds }: TimeDraft): string | undefined {
  if (seconds === undefined || seconds < FIRST_SECOND || seconds > LAST_SECOND) return undefined;
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
}

class EntryDraft {
  key = '';
  value = '';
}

const ENTRY = message('map entry', EntryDraft, {
  1: text((entry, key) => (entry.key = key)),
  2: text((entry, value) => (entry.value = value)),
});

/** Without a prototype, so that no key is special. */
function noTexts(): Record<string, string> {
  return Object.create(null) as Record<string, string>;
}

class MetaDraft {
  name: string | undefined;
  namespace: string | undefined;
  resourceVersion: string | undefined;
  creationTimestamp: string | undefined;
  deletionTimestamp: string | undefined;
  labels: Record<string, string> | undefined;
  annotations: Record<string, string> | undefined;
}

export const OBJECT_META = message('ObjectMeta', MetaDraft, {
  1: text((meta, name) => (meta.name = name)),
  3: repeatedText((meta, namespace) => (meta.namespace = namespace)),
  6: text((meta, version) => (meta.resourceVersion = version)),
  8: inner(TIME, (meta, time) => (meta.creationTimestamp = rfc3339(time))),
  9: inner(TIME, (meta, time) => (meta.deletionTimestamp = rfc3339(time))),
  11: inner(ENTRY, (meta, { key, value }) => ((meta.labels ??= noTexts())[key] = value)),
  12: inner(ENTRY, (meta, { key, value }) => ((meta.annotations ??= noTexts())[key] = value)),
});

/** What every object has. */
export interface ObjectDraft {
  readonly metadata: MetaDraft | undefined;
}

/** The table of a kind of object; its name is the kind. */
export type ObjectMessage = Message<ObjectDraft>;
