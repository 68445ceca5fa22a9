import { createLogger, format, transports, type Logger } from 'winston';
import type { LoggingConfig } from '../config/proxy-config.ts';
import { type LogEntry, type LogLevel, jsonLine, textLine } from './log-line.ts';
import type { Log, LogFields } from './log.ts';
import { Verbosity } from './verbosity.ts';

export interface LogOutput {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Milliseconds since 1970; fractions are shown. */
  readonly now: () => number;
}

/** A log and its one knob. */
export interface LogControl {
  readonly log: Log;
  /** Changes -v while the program runs; patterns of --vmodule keep theirs. */
  setVerbosity(level: number): void;
}

/** Where winston finds the entry in what it hands to a format; a symbol, so that no field can take its place. */
const ENTRY = Symbol('entry');
/** The symbol under which winston's streams look for the finished line (logform's contract). */
const MESSAGE = Symbol.for('message');

class WinstonLog implements Log {
  readonly #logger: Logger;
  readonly #verbosity: Verbosity;
  readonly #component: string;
  readonly #now: () => number;

  constructor(logger: Logger, verbosity: Verbosity, component: string, now: () => number) {
    this.#logger = logger;
    this.#verbosity = verbosity;
    this.#component = component;
    this.#now = now;
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
    if (level <= this.#verbosity.of(this.#component)) this.#write('debug', level, message, fields);
  }

  child(component: string): Log {
    const name = this.#component === '' ? component : `${this.#component}/${component}`;
    return new WinstonLog(this.#logger, this.#verbosity, name, this.#now);
  }

  #write(level: LogLevel, verbosity: number, message: string, fields: LogFields = {}): void {
    const entry: LogEntry = { level, verbosity, component: this.#component, message, fields, time: this.#now() };
    this.#logger.log({ level, message: '', [ENTRY]: entry });
  }
}

function lineFormat(toLine: (entry: LogEntry) => string): ReturnType<ReturnType<typeof format>> {
  return format((info) => {
    const entry = info[ENTRY] as LogEntry;
    return { ...info, [MESSAGE]: toLine(entry) };
  })();
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

/** Each stream is made when it is first asked for. */
const PROCESS_OUTPUT: LogOutput = {
  get stdout() {
    return process.stdout;
  },
  get stderr() {
    return process.stderr;
  },
  now: () => performance.timeOrigin + performance.now(),
};

/** The log of a process: one line an entry, to standard error unless the streams are split. */
export function createLog(config: LoggingConfig, output: LogOutput = PROCESS_OUTPUT): LogControl {
  const verbosity = new Verbosity(config.verbosity, config.vmodule);
  const logger = createLogger({
    levels: { error: 0, warn: 1, info: 2, debug: 3 },
    level: 'debug',
    format: lineFormat(config.format === 'json' ? jsonLine : textLine),
    transports: streams(config.splitStream, output),
    exitOnError: false,
  });
  return {
    log: new WinstonLog(logger, verbosity, '', output.now),
    setVerbosity: (level) => verbosity.setLevel(level),
  };
}
