import { closeSync, openSync } from 'node:fs';
import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../../../src/netlink/transport/addon.ts';
import { originalDestination } from '../../../../src/netlink/transport/original-destination.ts';

// A translated connection needs rules: test/traffic/userspace.test.ts has them.

const { originalDestination: ofDescriptor } = loadAddon() as unknown as {
  originalDestination: (...args: unknown[]) => unknown;
};

/** Returns the accepted side of a connection to an address of this machine. */
async function accepted(host: string): Promise<{ readonly socket: Socket; readonly end: () => void }> {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, host);
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, host);
  const [socket] = (await once(server, 'connection')) as [Socket];
  const end = (): void => {
    for (const each of [client, socket]) each.destroy();
    server.close();
  };
  return { socket, end };
}

describe('what the addon refuses', () => {
  test.each([undefined, null, '3', -1, 0.5, 2 ** 31, {}])('a descriptor that is %p', (fd) => {
    expect(() => ofDescriptor(fd)).toThrow(/fd must be a whole number/);
  });

  test('a descriptor that is none, and one of a file, with their errno', () => {
    expect(() => ofDescriptor(2 ** 31 - 1)).toThrow(expect.objectContaining({ operation: 'getsockname', errno: 9 }));
    const file = openSync('/dev/null', 'r');
    try {
      expect(() => ofDescriptor(file)).toThrow(expect.objectContaining({ operation: 'getsockname', errno: 88 }));
    } finally {
      closeSync(file);
    }
  });
});

test.each(['127.0.0.1', '::1'])(
  'a connection to %s that no rule translated: its own address, or an errno',
  async (host) => {
    const { socket, end } = await accepted(host);
    const { localPort: port } = socket;
    try {
      let found: unknown;
      try {
        found = originalDestination(socket)?.port;
      } catch (error) {
        // ENOENT: connection tracking does not know it. ENOPROTOOPT: it is not loaded.
        found = (error as { errno?: number }).errno;
      }
      expect([port, 2, 92]).toContain(found);
    } finally {
      end();
    }
  },
);

test('a socket that is closed has no descriptor', async () => {
  const { socket, end } = await accepted('127.0.0.1');
  end();
  await once(socket, 'close');
  expect(() => originalDestination(socket)).toThrow(expect.objectContaining({ errno: 9 }));
});
