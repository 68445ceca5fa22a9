import { createLogger, format, transports, type Logger } from 'winston';
import type { LoggingConfig } from '../../config/proxy-config.ts';
import { callerOf } from './caller.ts';
import { counted } from '../../base/text/counted.ts';
import { LogLimit } from './log-limit.ts';
import { type LogEntry, type LogLevel, jsonLine, klogLine } from './log-line.ts';
import { wallNow } from '../../base/wall-clock.ts';
import type { Log, LogFields } from './log.ts';
import { Verbosity } from './verbosity.ts';

export interface LogOutput {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Milliseconds since 1970; fractions are shown. */
  readonly now: () => number;
  /** Monotonic milliseconds; by default performance.now(). */
  readonly monotonic?: () => number;
}

/** A log whose verbosity can be changed. */
export interface LogControl {
  readonly log: Log;
  /** Changes -v while the program runs; components that a --vmodule pattern matches keep their level. */
  setVerbosity(level: number): void;
}

/** The property from which winston's transports take the formatted line (logform). */
const MESSAGE = Symbol.for('message');

/** What the logs of all components have in common. */
interface Shared {
  readonly logger: Logger;
  readonly line: (entry: LogEntry) => string;
  readonly verbosity: Verbosity;
  readonly now: () => number;
  /** By the statement that logs. Lines of debug levels are not limited: somebody asked for them. */
  readonly limit: LogLimit<LogEntry>;
  releasing: boolean;
}

/** How often held lines are counted in the log. */
const RELEASE_MS = 60_000;

class WinstonLog implements Log {
  readonly #shared: Shared;
  readonly #component: string;

  constructor(shared: Shared, component = '') {
    this.#shared = shared;
    this.#component = component;
  }

  error(message: string, fields?: LogFields): void {
    this.#write('error', 0, message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#write('warn', 0, message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', 0, message, fields);
  }

  debug(level: number, message: string, fields?: LogFields): void {
    if (this.enabled(level)) this.#write('debug', level, message, fields);
  }

  enabled(level: number): boolean {
    return level <= this.#shared.verbosity.of(this.#component);
  }

  child(component: string): Log {
    const name = this.#component === '' ? component : `${this.#component}/${component}`;
    return new WinstonLog(this.#shared, name);
  }

  #write(level: LogLevel, verbosity: number, message: string, fields: LogFields = {}): void {
    const { limit, now } = this.#shared;
    const caller = callerOf(this[level]);
    const entry = { level, verbosity, component: this.#component, caller, message, fields, time: now() };
    if (level === 'debug' || limit.allows(`${caller} ${this.#component}`, entry)) writeLine(this.#shared, entry);
    else releaseLater(this.#shared);
  }
}

function writeLine({ logger, line }: Shared, entry: LogEntry): void {
  logger.log({ level: entry.level, message: '', [MESSAGE]: line(entry) });
}

/** Writes a line with the number of held lines of each kind, as soon as one may be written. */
function releaseLater(shared: Shared): void {
  if (shared.releasing) return;
  shared.releasing = true;
  setTimeout(() => {
    shared.releasing = false;
    for (const { count, last } of shared.limit.release()) {
      const message = `${counted(count, 'line')} like this not written, to keep the log short; the last one: ${last.message}`;
      writeLine(shared, { ...last, message, time: shared.now() });
    }
    if (shared.limit.holds) releaseLater(shared);
  }, RELEASE_MS).unref();
}

function streams(splitStream: boolean, output: LogOutput): InstanceType<typeof transports.Stream>[] {
  const { stderr } = output;
  if (!splitStream) return [new transports.Stream({ stream: stderr })];
  const informing = format((info) => (info.level === 'info' || info.level === 'debug' ? info : false))();
  return [
    new transports.Stream({ stream: stderr, level: 'warn' }),
    new transports.Stream({ stream: output.stdout, format: informing }),
  ];
}

/** Getters, because Node.js creates each stream on first access. */
const PROCESS_OUTPUT: LogOutput = {
  get stdout() {
    return process.stdout;
  },
  get stderr() {
    return process.stderr;
  },
  now: wallNow,
};

/** Returns the log of a process. It writes one line per entry, to standard error unless the streams are split. */
export function createLog(config: LoggingConfig, output: LogOutput = PROCESS_OUTPUT): LogControl {
  const verbosity = new Verbosity(config.verbosity, config.vmodule);
  const logger = createLogger({
    levels: { error: 0, warn: 1, info: 2, debug: 3 },
    level: 'debug',
    format: format((info) => info)(),
    transports: streams(config.splitStream, output),
    exitOnError: false,
  });
  const limit = new LogLimit<LogEntry>(output.monotonic ?? (() => performance.now()));
  const line = config.format === 'json' ? jsonLine : klogLine;
  return {
    log: new WinstonLog({ logger, line, verbosity, now: output.now, limit, releasing: false }),
    setVerbosity: (level) => verbosity.setLevel(level),
  };
}
