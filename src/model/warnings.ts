import { escapeUnprintable } from '../base/text/escape-unprintable.ts';
import { EMPTY } from '../base/trim-capacity.ts';

/** Tells the owner of an API object which part of it was ignored. */
export interface ModelWarning {
  /** Stable identifier, such as "invalid-address". */
  readonly reason: string;
  readonly message: string;
}

/** The number of characters that messages show of untrusted text. */
export const SHOWN_LENGTH = 80;

/** Returns untrusted text for a message: quoted, with unprintable characters escaped, truncated to 80 characters. */
export function quoted(text: string): string {
  const shown = escapeUnprintable(JSON.stringify(text.slice(0, SHOWN_LENGTH)));
  return text.length > SHOWN_LENGTH ? `${shown}...` : shown;
}

/** Keeps one warning per reason, so that a thousand bad addresses in an object do not cause a thousand messages. */
export class Warnings {
  #first: Map<string, { readonly message: string; count: number }> | undefined;

  add(reason: string, message: string): void {
    this.#first ??= new Map();
    const known = this.#first.get(reason);
    if (known === undefined) this.#first.set(reason, { message, count: 1 });
    else known.count++;
  }

  list(): readonly ModelWarning[] {
    if (this.#first === undefined) return EMPTY;
    return [...this.#first]
      .map(([reason, { message, count }]) => ({
        reason,
        message: count === 1 ? message : `${message} (and ${count - 1} more like it)`,
      }))
      .sort((a, b) => (a.reason < b.reason ? -1 : 1));
  }
}
