import { connect } from 'node:net';

/**
 * Opens connections to a Unix socket without pause: some ask for everything and do not read, some send any bytes, some
 * leave in the middle of a question. Prints a line when it has begun, and runs until it is killed.
 */
const SENDS = [
  'GET /v1/diff HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /v1/service?namespace=default&name=web HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(10),
  'GET /v1/diff HTTP/1.1\r\nX-Slow: ',
  'POST /v1/diff HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n',
  '\u0000\u0001GET \u007f\r\n\r\n',
  'x'.repeat(20_000),
];

const [, , path = ''] = process.argv;
let turn = 0;

function attack(): void {
  const socket = connect(path);
  socket.pause();
  socket.on('error', () => undefined);
  socket.on('close', () => setTimeout(attack, 1));
  socket.write(SENDS[turn % SENDS.length] ?? '');
  turn += 1;
  if (turn % 3 === 0) setTimeout(() => socket.destroy(), turn % 50);
}

for (let opened = 0; opened < 40; opened++) attack();
process.stdout.write('begun\n');
