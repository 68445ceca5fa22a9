import { expect, test } from '@jest/globals';
import { EngineThread } from '../../../src/userspace/engine-thread.ts';
import { DEFAULT_LIMITS } from '../../../src/userspace/engine-limits.ts';
import { EngineBed, LOCAL, forwardedPort, freePort, readAll } from './engine-bed.ts';

test('the engine in a worker thread forwards, reports, and refuses a port that is in use', async () => {
  await using bed = new EngineBed();
  const refused: { readonly code: string; readonly owner?: string }[] = [];
  const thread = new EngineThread({ limits: DEFAULT_LIMITS, onRefused: (one) => refused.push(one), onFailure: fail });
  const server = await bed.server((socket) => socket.end('a'));
  const listener = { address: LOCAL, protocol: 'TCP', key: 'default/web' } as const;
  const port = await freePort();
  const update = {
    whole: true,
    ports: [forwardedPort([server])],
    listeners: [
      { ...listener, port },
      { ...listener, port: server.port },
    ],
  };
  await thread.apply(update);
  await thread.apply(update);
  expect(await readAll(await bed.client(port))).toBe('a');
  const report = await thread.report();
  expect(report).toMatchObject({ listening: { 4: 1, 6: 0 }, totals: { connections: 1, bytesOut: 1 } });
  expect(refused).toMatchObject([{ code: 'EADDRINUSE', owner: expect.stringContaining(`(pid ${process.pid})`) }]);
  await thread.apply({ whole: true });
  await expect(bed.client(port)).rejects.toThrow('ECONNREFUSED');
  await thread.close();
});

function fail(reason: string): never {
  throw new Error(reason);
}
