import type { Listed, SilentReply } from '../explain/replies.ts';
import { aligned } from './output.ts';

export function list<T>(title: string, { count, first }: Listed<T>, text: (item: T) => string): string[] {
  if (count === 0) return [];
  const more = count - first.length;
  const lines = aligned([...first.map((item) => [text(item)]), ...(more > 0 ? [[`and ${more} more`]] : [])]);
  return ['', `${title} (${count}):`, ...lines];
}

export function silentLines(silent: Listed<SilentReply> = { count: 0, first: [] }): string[] {
  return list('endpoints that do not answer', silent, ({ service, endpoint, why }) => `${service}: ${endpoint} ${why}`);
}
