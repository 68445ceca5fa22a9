import type { Log, LogFields } from '../../../src/observe/log/log.ts';

export interface LogLine {
  readonly level: 'error' | 'warn' | 'info' | 'debug';
  readonly message: string;
  readonly fields: LogFields;
}

/** Keeps every line, for assertions. */
export class RecordingLog implements Log {
  readonly lines: LogLine[] = [];

  error(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'error', message, fields });
  }

  warn(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'warn', message, fields });
  }

  info(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'info', message, fields });
  }

  enabled(): boolean {
    return true;
  }

  debug(_level: number, message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'debug', message, fields });
  }

  child(): Log {
    return this;
  }

  messages(level: LogLine['level']): readonly string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }
}
