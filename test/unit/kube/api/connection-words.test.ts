import type { ClientRequest } from 'node:http';
import { EventEmitter } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { connectionText } from '../../../../src/kube/api/connection-text.ts';
import { RequestProgress } from '../../../../src/kube/api/request-progress.ts';

/** Returns why a request times out after these events. */
function missing(server: string, steps: readonly string[], throughProxy = false, reusedSocket = false): string {
  const progress = new RequestProgress(new URL(server), throughProxy);
  const request = Object.assign(new EventEmitter(), { reusedSocket });
  const socket = new EventEmitter();
  for (const step of steps) {
    if (step === 'follow') progress.follow(request as unknown as ClientRequest);
    else if (step === 'socket') request.emit('socket', socket);
    else socket.emit(step);
  }
  return progress.missing(8_000);
}

describe('reason of a timeout', () => {
  test.each<[string, string, readonly string[], RegExp]>([
    ['its credentials', 'https://a:1', [], /^no result within 8 s/],
    ['the name', 'https://api.test:1', ['follow', 'socket'], /^the name api\.test was not resolved within 8 s/],
    ['no name', 'https://[fd00::1]:1', ['follow', 'socket'], /^no TCP connection within 8 s/],
    ['the connection, by name', 'https://api.test:1', ['follow', 'socket', 'lookup'], /^no TCP connection/],
    ['TLS', 'https://192.0.2.1:1', ['follow', 'socket', 'connect'], /no TLS handshake within 8 s/],
    [
      'the answer',
      'https://192.0.2.1:1',
      ['follow', 'socket', 'connect', 'secureConnect'],
      /^the server received the request/,
    ],
    [
      'the answer, without TLS',
      'http://192.0.2.1:1',
      ['follow', 'socket', 'connect'],
      /^the server received the request/,
    ],
  ])('%s', (_what, server, steps, text) => {
    expect(missing(server, steps)).toMatch(text);
  });

  test('a timeout on a reused connection, and on one through a proxy, has its own reason', () => {
    expect(missing('https://192.0.2.1:1', ['follow', 'socket'], false, true)).toMatch(
      /^the server received the request/,
    );
    expect(missing('https://192.0.2.1:1', ['follow'], true)).toMatch(/^no connection through the proxy/);
    expect(missing('https://192.0.2.1:1', ['follow', 'socket'], true)).toMatch(/no TLS handshake/);
    expect(missing('http://192.0.2.1:1', ['follow', 'socket', 'lookup'], true)).toMatch(
      /^no connection through the proxy/,
    );
  });
});

test.each([
  ['https', 'ECONNRESET', 'socket hang up', /^socket hang up$/],
  ['http', 'ECONNREFUSED', 'connect ECONNREFUSED', /^connect ECONNREFUSED$/],
  ['https', 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'tlsv1 alert unknown ca', /^tlsv1 alert unknown ca$/],
  ['https', 'EPROTO', 'write EPROTO ...:wrong version number:...', /server probably expects HTTP, /],
  ['http', 'HPE_INVALID_CONSTANT', 'Parse Error: Expected HTTP/', /server probably expects HTTPS, /],
])('%s, %s: %s', (scheme, code, text, expected) => {
  const found = connectionText(Object.assign(new Error(text), { code }), new URL(`${scheme}://192.0.2.1:6443`));
  expect(found).toMatch(expected);
});
