import { type Socket, connect } from 'node:net';

/** Ways in which a client keeps a connection busy without finishing. */
export const MANNERS = {
  'says nothing': { sends: '' },
  'never ends its headers': { sends: 'GET /livez HTTP/1.1\r\nHost: node\r\nX-Slow: ' },
  'sends a byte a second': { sends: 'GET /livez HTTP/1.1\r\nHost: node\r\nX-Slow: ', everySecond: 'x' },
  'sends large headers and never ends them': { sends: `GET /livez HTTP/1.1\r\nX-Large: ${'x'.repeat(7_900)}` },
  'never reads its answer': { sends: 'GET /large HTTP/1.1\r\nHost: node\r\n\r\n' },
  'pipelines and never reads': { sends: 'GET /livez HTTP/1.1\r\nHost: node\r\n\r\n'.repeat(20) },
} as const satisfies Record<string, { readonly sends: string; readonly everySecond?: string }>;

export type Manner = keyof typeof MANNERS;

/** Opens the connections, prints "opened" when all were attempted, and holds those that the server does not close. */
function attack(port: number, count: number, manner: Manner): void {
  const { sends, ...rest } = MANNERS[manner];
  const held = new Set<Socket>();
  let tried = 0;
  const done = (): void => {
    if (++tried === count) process.stdout.write('opened\n');
  };
  for (let opened = 0; opened < count; opened++) {
    const socket = connect(port, '127.0.0.1');
    socket.pause();
    held.add(socket);
    let counted = false;
    const once = (): void => {
      if (!counted) done();
      counted = true;
    };
    socket.on('connect', () => {
      if (sends !== '') socket.write(sends);
      once();
    });
    socket.on('error', once);
    socket.on('close', () => held.delete(socket));
  }
  setInterval(() => {
    for (const socket of held) if ('everySecond' in rest) socket.write(rest.everySecond);
  }, 1_000);
}

const [, script, port, count, manner] = process.argv;
if (script?.endsWith('slow-clients.ts') === true) attack(Number(port), Number(count), manner as Manner);
