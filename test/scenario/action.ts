/** A line of `probes` other than new connections. */
export type Action = { readonly text: string; readonly from: string } & (
  | {
      readonly kind: 'hold';
      readonly name: string;
      readonly address: string;
      readonly port: number;
      readonly by: string;
    }
  /** `by` undefined: the connection must be broken. */
  | { readonly kind: 'ask'; readonly name: string; readonly by: string | undefined }
  | { readonly kind: 'http'; readonly address: string; readonly port: number; readonly status: string }
  | { readonly kind: 'run'; readonly argv: readonly string[]; readonly prints: boolean; readonly wanted: string }
);

const HOLD = /^(\S+) holds (\S+) tcp \[?([0-9a-f:.]+?)\]?:(\d+) -> (\S+)$/;
const ASK = /^(\S+) asks (\S+) -> (\S+)$/;
const HTTP = /^(\S+) http \[?([0-9a-f:.]+?)\]?:(\d+) -> (\d{3})$/;
const RUN = /^(\S+) runs (.+) -> (prints|never prints) (.+)$/;

/** Returns undefined if the line is not an action; it may be a plain probe. */
export function parseAction(text: string): Action | undefined {
  const [, from = '', ...words] = HOLD.exec(text) ?? ASK.exec(text) ?? HTTP.exec(text) ?? RUN.exec(text) ?? [];
  const [first = '', second = '', third = '', fourth = ''] = words;
  if (HOLD.test(text)) {
    return { kind: 'hold', text, from, name: first, address: second, port: Number(third), by: fourth };
  }
  if (ASK.test(text)) return { kind: 'ask', text, from, name: first, by: second === 'cut' ? undefined : second };
  if (HTTP.test(text)) return { kind: 'http', text, from, address: first, port: Number(second), status: third };
  if (RUN.test(text)) {
    return { kind: 'run', text, from, argv: first.split(' '), prints: second === 'prints', wanted: third };
  }
  return undefined;
}
