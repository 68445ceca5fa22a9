import { type Message, integer, mapped, message, repeatedText, text } from './message-table.ts';

// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto

/** Years 0 to 9999, which RFC 3339 can write. */
const FIRST_SECOND = -62_167_219_200;
const LAST_SECOND = 253_402_300_799;

/** The zero time of Go, which is null in JSON, has no seconds. */
const TIME = mapped(message('Time', { 1: ['seconds', integer] }), ({ seconds }) => {
  if (seconds === undefined || seconds < FIRST_SECOND || seconds > LAST_SECOND) return undefined;
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
});

/** Entries of a map of texts. It has no prototype, so that no key is special. */
const TEXTS = {
  ...message('map entry', { 1: ['key', text], 2: ['value', text] }),
  add: (
    texts = Object.create(null) as Record<string, string>,
    { key = '', value = '' }: { readonly key: string | undefined; readonly value: string | undefined },
  ) => {
    texts[key] = value;
    return texts;
  },
};

export const OBJECT_META = message('ObjectMeta', {
  1: ['name', text],
  3: ['namespace', repeatedText],
  6: ['resourceVersion', text],
  8: ['creationTimestamp', TIME],
  9: ['deletionTimestamp', TIME],
  11: ['labels', TEXTS],
  12: ['annotations', TEXTS],
});

/** What every object has. */
export interface ObjectDraft {
  readonly metadata: { readonly name: string | undefined; readonly namespace: string | undefined } | undefined;
}

/** The table of a kind of object; its name is the kind. */
export type ObjectMessage = Message<ObjectDraft>;
