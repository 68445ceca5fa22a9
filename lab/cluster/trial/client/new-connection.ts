import { connect } from 'node:net';
import { SLOW_MS, TIME_LIMIT_MS, kindOf, parseResponse, request } from './http.ts';
import type { FailureKind, Target } from './lines.ts';
import type { LocalPorts } from './local-ports.ts';
import type { Report } from './report.ts';

/** Opens a connection, makes one request and closes it. Everything that comes of it is reported. */
export function askOnce(target: Target, report: Report, ports: LocalPorts): void {
  const at = Date.now();
  const begin = performance.now();
  const socket = connect({ host: target.address, port: target.port, localPort: ports.take() });
  let localPort = 0;
  let received = '';
  let open = true;
  report.asked();
  const timer = setTimeout(() => {
    fail('timeout', localPort === 0 ? 'no connection' : 'no answer');
  }, TIME_LIMIT_MS);

  function close(): number {
    open = false;
    clearTimeout(timer);
    socket.destroy();
    return Math.round(performance.now() - begin);
  }
  function fail(kind: FailureKind, detail: string): void {
    if (open) report.failure({ at, target: target.name, kind, cut: false, detail, ms: close(), localPort });
  }

  socket.setEncoding('utf8');
  socket.on('connect', () => {
    localPort = socket.localPort ?? 0;
    socket.write(request(target, 'close'));
  });
  socket.on('data', (text) => {
    received += text.toString();
    const response = parseResponse(received);
    if (response === undefined || !open) return;
    if (response.status !== 200) {
      fail('other', `status ${response.status}`);
      return;
    }
    const ms = close();
    report.answered(response.body, target.name);
    if (ms > SLOW_MS) report.slow({ at, target: target.name, long: false, ms, localPort, served: response.body });
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    const detail = error.code ?? error.message;
    fail(kindOf(detail), localPort === 0 ? detail : `${detail} after the connection`);
  });
  socket.on('close', () => {
    fail('closed', 'closed before the answer');
  });
}
