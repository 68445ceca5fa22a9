import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';

const compress = promisify(gzip);

/** Whether the value of Accept-Encoding allows gzip (RFC 9110, 12.5.3). */
export function acceptsGzip(header: string): boolean {
  const weights = new Map<string, number>();
  for (const item of header.toLowerCase().split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    weights.set(coding, weight === undefined ? 1 : Number(weight));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}

/** Compressed bodies by their pieces, so that responses that share a body compress it once. */
const compressed = new WeakMap<readonly Buffer[], Promise<Buffer>>();

/** Compresses in another thread, with the fastest level: metrics repeat so much that they shrink to a tenth anyway. */
export function gzipped(pieces: readonly Buffer[]): Promise<Buffer> {
  const known = compressed.get(pieces);
  if (known !== undefined) return known;
  const result = compress(Buffer.concat(pieces), { level: constants.Z_BEST_SPEED });
  compressed.set(pieces, result);
  return result;
}
