/** Fields of a log line; never secrets (tokens, keys, certificates, kubeconfigs). The line's own keys are excluded. */
export type LogFields = Readonly<
  Record<string, string | number | bigint | boolean | readonly string[] | undefined> & {
    [K in 'ts' | 'level' | 'logger' | 'caller' | 'msg' | 'v']?: never;
  }
>;

/**
 * Writes log lines. `debug` has klog's verbosity: a line is shown if -v is at least `level`. A message says what
 * happened, to which object, why, and what to do.
 */
export interface Log {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(level: number, message: string, fields?: LogFields): void;
  /** Returns whether `debug` shows this level. Call it before building an expensive message. */
  enabled(level: number): boolean;
  /** Returns the same log under a component's name. */
  child(component: string): Log;
}
