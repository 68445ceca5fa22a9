import { Breather } from '../net/breather.ts';

/** Characters: little enough to be written in a fraction of a millisecond. */
const PIECE = 64 * 1024;

/** Joins text as UTF-8 in pieces, and lets the event loop turn between them. They are outside of the heap, and can be sent to several. */
export async function textPieces(text: Iterable<string>): Promise<readonly Buffer[]> {
  const breather = new Breather();
  const pieces: Buffer[] = [];
  let open = '';
  for (const part of text) {
    open += part;
    if (open.length < PIECE) continue;
    pieces.push(Buffer.from(open));
    open = '';
    await breather.breathe();
  }
  pieces.push(Buffer.from(open));
  return pieces;
}
