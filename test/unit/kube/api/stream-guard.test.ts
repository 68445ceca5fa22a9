import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { expect, test } from '@jest/globals';
import { readBytes, readText } from '../../../../src/kube/api/stream-guard.ts';

function bodyOf(chunks: Iterable<Buffer>): IncomingMessage {
  return Readable.from(chunks) as IncomingMessage;
}

test('a short body is read as a whole', async () => {
  expect(await readText(bodyOf([Buffer.from('{"kind":'), Buffer.from('"Status"}')]), 1_000)).toBe('{"kind":"Status"}');
});

test('a body without an end is not kept', async () => {
  let sent = 0;
  function* endless(): Generator<Buffer> {
    for (;;) {
      sent += 1;
      yield Buffer.alloc(1024 * 1024);
    }
  }
  await expect(readBytes(bodyOf(endless()), 10_000)).rejects.toThrow('the response has more than 4194304 bytes');
  expect(sent).toBeLessThan(20);
});
