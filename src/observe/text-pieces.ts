import { Yielder } from '../base/yielder.ts';

/** Characters; encoding them takes a fraction of a millisecond. */
const BATCH = 64 * 1024;

/** Returns the text as UTF-8 buffers that several responses can share. Yields to the event loop between buffers. */
export async function textPieces(text: Iterable<string>): Promise<readonly Buffer[]> {
  const yielder = new Yielder();
  const pieces: Buffer[] = [];
  let open = '';
  for (const part of text) {
    open += part;
    if (open.length < BATCH) continue;
    pieces.push(Buffer.from(open));
    open = '';
    await yielder.yieldIfDue();
  }
  pieces.push(Buffer.from(open));
  return pieces;
}
