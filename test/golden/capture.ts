import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The datagrams that one command of a tool exchanged with the kernel, in order. */
export interface Exchange {
  readonly name: string;
  readonly command: string;
  readonly sent: readonly Uint8Array[];
  readonly received: readonly Uint8Array[];
}

interface CaptureFile {
  readonly exchanges: readonly {
    readonly name: string;
    readonly command: string;
    readonly sent: readonly string[];
    readonly received: readonly string[];
  }[];
}

const fromHex = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

/** Reads `<tool>.json` beside this file; its first fields say which tool and kernel, and how it was captured. */
export function captured(tool: string): ReadonlyMap<string, Exchange> {
  const path = fileURLToPath(new URL(`${tool}.json`, import.meta.url));
  const file = JSON.parse(readFileSync(path, 'utf8')) as CaptureFile;
  return new Map(
    file.exchanges.map(({ name, command, sent, received }) => [
      name,
      { name, command, sent: sent.map(fromHex), received: received.map(fromHex) },
    ]),
  );
}

export function exchange(tool: string, name: string): Exchange {
  const found = captured(tool).get(name);
  if (found === undefined) throw new Error(`no exchange ${name} in ${tool}.json`);
  return found;
}
