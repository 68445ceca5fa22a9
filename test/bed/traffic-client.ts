import { createSocket } from 'node:dgram';
import { connect, type Socket } from 'node:net';

import type {
  Answer,
  LoadResult,
  LoadShape,
  NoAnswer,
  ProbeRequest,
  ProbeResult,
  Target,
  Transport,
} from './agent-protocol.ts';
import { nextSourcePort } from './source-ports.ts';

/** One TCP connection for repeated requests. */
export class HeldConnection {
  readonly #socket: Socket;
  #received = '';
  #failure: NoAnswer | undefined;
  readonly #reset: boolean;
  #wake: () => void = () => {};

  constructor(target: Target) {
    this.#socket = connect({
      host: target.address,
      port: target.port,
      localPort: target.sourcePort ?? nextSourcePort(),
      ...(target.sourceAddress === undefined ? {} : { localAddress: target.sourceAddress }),
    });
    this.#reset = target.reset === true;
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (text) => {
      this.#received += text.toString();
      this.#wake();
    });
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#fail(error.code ?? error.message);
    });
    this.#socket.on('close', () => {
      this.#fail('CLOSED');
    });
  }

  async ask(timeoutMs: number): Promise<ProbeResult> {
    if (this.#failure !== undefined) {
      return this.#failure;
    }
    this.#received = '';
    this.#socket.write('GET / HTTP/1.1\r\nHost: bed\r\n\r\n');
    const timer = setTimeout(() => {
      this.#fail('TIMEOUT');
    }, timeoutMs);
    try {
      for (;;) {
        const result = parseResponse(this.#received) ?? this.#failure;
        if (result !== undefined) {
          return result;
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    if (this.#reset) this.#socket.resetAndDestroy();
    else this.#socket.destroy();
  }

  #fail(code: string): void {
    this.#failure ??= { ok: false, code };
    this.#wake();
  }
}

export async function probe(request: ProbeRequest): Promise<ProbeResult> {
  const { protocol, target, timeoutMs, bytes = 0, answerBytes = 0 } = request;
  if (protocol === 'udp') {
    return probeUdp(target, timeoutMs, `ask ${answerBytes}`.padEnd(bytes));
  }
  if (protocol === 'sctp') {
    throw new Error('Node.js has no SCTP: use sctp_agent.py');
  }
  const connection = new HeldConnection(target);
  const result = await connection.ask(timeoutMs);
  connection.close();
  return result;
}

/** Starts the probes in their order, at most `parallel` at a time. */
export async function probeAll(probes: readonly ProbeRequest[], parallel: number): Promise<readonly ProbeResult[]> {
  const results: ProbeResult[] = [];
  const waiting = probes.entries();
  const lane = async (): Promise<void> => {
    // The lanes share one iterator: each takes the next probe that no other has taken.
    for (const [index, request] of waiting) {
      results[index] = await probe(request);
    }
  };
  await Promise.all(Array.from({ length: parallel }, lane));
  return results;
}

/** Sends requests at an even rate, each on a new connection or socket, without waiting for the one before. */
export async function load(protocol: Transport, target: Target, shape: LoadShape): Promise<LoadResult> {
  const answers: Record<string, number> = {};
  const failures: Record<string, number> = {};
  const running: Promise<void>[] = [];
  const count = Math.floor((shape.durationMs * shape.perSecond) / 1000);
  const start = performance.now();
  for (let n = 0; n < count; n++) {
    const wait = start + (n * 1000) / shape.perSecond - performance.now();
    if (wait > 0) {
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    running.push(
      probe({ protocol, target, timeoutMs: shape.timeoutMs }).then((result) => {
        const [counts, key] = result.ok ? [answers, result.answeredBy] : [failures, result.code];
        counts[key] = (counts[key] ?? 0) + 1;
      }),
    );
  }
  await Promise.all(running);
  return { sent: count, answers, failures };
}

function probeUdp(target: Target, timeoutMs: number, request: string): Promise<ProbeResult> {
  // Connected, so that an ICMP error is reported.
  const socket = createSocket(target.address.includes(':') ? 'udp6' : 'udp4');
  return new Promise<ProbeResult>((resolve) => {
    const timer = setTimeout(() => {
      settle({ ok: false, code: 'TIMEOUT' });
    }, timeoutMs);
    let open = true;
    const settle = (result: ProbeResult) => {
      if (open) {
        open = false;
        clearTimeout(timer);
        socket.close();
        resolve(result);
      }
    };
    const fail = (error: NodeJS.ErrnoException) => {
      settle({ ok: false, code: error.code ?? error.message });
    };
    socket.on('error', fail);
    socket.on('message', (message) => {
      settle(parseAnswer(message.toString()));
    });
    socket.bind({ port: target.sourcePort ?? nextSourcePort() }, () => {
      socket.connect(target.port, target.address, (error?: Error) => {
        if (error === undefined || error === null) {
          socket.send(request, (failure) => {
            if (failure !== null) {
              fail(failure);
            }
          });
        } else {
          fail(error);
        }
      });
    });
  });
}

/** Returns the answer in an HTTP response if it is complete: the only newline ends the body. */
function parseResponse(text: string): ProbeResult | undefined {
  const headersEnd = text.indexOf('\r\n\r\n');
  const body = headersEnd < 0 ? '' : text.slice(headersEnd + 4);
  return body.endsWith('\n') ? parseAnswer(body) : undefined;
}

function parseAnswer(text: string): ProbeResult {
  const value: unknown = JSON.parse(text);
  return isAnswer(value) ? value : { ok: false, code: 'NOT_A_BED_SERVER' };
}

function isAnswer(value: unknown): value is Answer {
  return typeof value === 'object' && value !== null && 'answeredBy' in value && 'sourceSeen' in value;
}
