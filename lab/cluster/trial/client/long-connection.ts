import { type Socket, connect } from 'node:net';
import { SLOW_MS, TIME_LIMIT_MS, kindOf, parseResponse, request } from './http.ts';
import type { FailureKind, Target } from './lines.ts';
import type { LocalPorts } from './local-ports.ts';
import type { Report } from './report.ts';

const PERIOD_MS = 100;
/** How long a silent connection is watched, in case it answers after all. */
const WATCH_SILENT_MS = 30_000;
const REOPEN_MS = 500;

/** One connection at a time that is asked every 100 ms. When it breaks, that is reported, and the next one is opened. */
export class LongConnection {
  readonly #target: Target;
  readonly #report: Report;
  readonly #ports: LocalPorts;
  #socket: Socket | undefined;
  /** The port that it has, connected or not. */
  #keptPort = 0;
  #localPort = 0;
  #received = '';
  #served: string | undefined;
  /** When the unanswered request was sent, or the connection begun: by both clocks. */
  #askedAt = 0;
  #askedBegin = 0;
  #waiting = false;
  #silent = false;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(target: Target, report: Report, ports: LocalPorts) {
    this.#target = target;
    this.#report = report;
    this.#ports = ports;
  }

  /** The server that answered last; undefined if the connection does not work. */
  get served(): string | undefined {
    return this.#silent ? undefined : this.#served;
  }

  open(): void {
    const { address: host, port } = this.#target;
    this.#keptPort = this.#ports.keep();
    const socket = connect({ host, port, localPort: this.#keptPort, noDelay: true });
    this.#socket = socket;
    this.#localPort = 0;
    this.#received = '';
    this.#served = undefined;
    this.#silent = false;
    this.#asks();
    this.#report.asked();
    socket.setEncoding('utf8');
    socket.on('connect', () => {
      this.#localPort = socket.localPort ?? 0;
      socket.write(request(this.#target, 'keep-alive'));
    });
    socket.on('data', (text) => {
      this.#received += text.toString();
      const response = parseResponse(this.#received);
      if (response === undefined) return;
      this.#received = '';
      if (response.status === 200) this.#answered(response.body);
      else this.#broken('other', `status ${response.status}`);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const detail = error.code ?? error.message;
      this.#broken(kindOf(detail), detail);
    });
    socket.on('close', () => {
      this.#broken('closed', 'closed by the server');
    });
    this.#timer = setInterval(() => {
      this.#beat();
    }, PERIOD_MS);
  }

  end(): void {
    this.#ended = true;
    this.#drop();
  }

  #beat(): void {
    if (!this.#waiting) {
      this.#asks();
      this.#socket?.write(request(this.#target, 'keep-alive'));
      return;
    }
    const ms = performance.now() - this.#askedBegin;
    if (this.#silent) {
      if (ms > TIME_LIMIT_MS + WATCH_SILENT_MS) this.#reopen();
    } else if (ms > TIME_LIMIT_MS) {
      if (this.#served === undefined) {
        this.#broken('timeout', this.#localPort === 0 ? 'no connection' : 'no answer');
      } else {
        this.#fail('silent', `no answer in ${TIME_LIMIT_MS / 1000} s`);
        this.#silent = true;
      }
    }
  }

  #asks(): void {
    this.#waiting = true;
    this.#askedAt = Date.now();
    this.#askedBegin = performance.now();
  }

  #answered(server: string): void {
    if (!this.#waiting) return;
    const ms = Math.round(performance.now() - this.#askedBegin);
    const line = { at: this.#askedAt, target: this.#target.name, ms, localPort: this.#localPort, served: server };
    this.#waiting = false;
    if (this.#served === undefined) this.#report.answered(server, this.#target.name);
    this.#report.answeredLong();
    this.#served = server;
    if (this.#silent) {
      this.#silent = false;
      this.#report.resumed(line);
    } else if (ms > SLOW_MS) {
      this.#report.slow({ ...line, long: true });
    }
  }

  #broken(kind: FailureKind, detail: string): void {
    if (this.#socket === undefined) return;
    // That it fell silent has been reported.
    if (!this.#silent) this.#fail(kind, detail);
    this.#reopen();
  }

  #fail(kind: FailureKind, detail: string): void {
    const served = this.#served;
    // Without an unanswered request, it broke now.
    this.#report.failure({
      at: this.#waiting ? this.#askedAt : Date.now(),
      target: this.#target.name,
      kind,
      cut: served !== undefined,
      detail,
      ms: this.#waiting ? Math.round(performance.now() - this.#askedBegin) : 0,
      localPort: this.#localPort,
      ...(served === undefined ? {} : { served }),
    });
  }

  #reopen(): void {
    this.#drop();
    setTimeout(() => {
      if (!this.#ended) this.open();
    }, REOPEN_MS);
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#served = undefined;
    this.#ports.release(this.#keptPort);
    clearInterval(this.#timer);
    // It may still report errors, which nobody wants to hear.
    socket?.removeAllListeners();
    socket?.on('error', () => {});
    socket?.destroy();
  }
}
