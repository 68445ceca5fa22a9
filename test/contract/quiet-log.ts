import type { Log } from '../../src/observe/log/log.ts';

/** A log that keeps warnings and errors for a test to look at, and says nothing. */
export class QuietLog implements Log {
  readonly troubles: string[] = [];

  error(message: string): void {
    this.troubles.push(message);
  }

  warn(message: string): void {
    this.troubles.push(message);
  }

  info(): void {}

  debug(): void {}

  enabled(): boolean {
    return false;
  }

  child(): Log {
    return this;
  }
}
