/** What a log line may carry beside its sentence. Never secrets: tokens, keys, certificates, kubeconfig contents. */
export type LogFields = Readonly<Record<string, string | number | bigint | boolean | readonly string[] | undefined>>;

/**
 * The log as everything outside observe/ sees it. `debug` has klog-like verbosity: shown when -v is at least `level`. Messages are
 * sentences for the person who is paged: what happened, to which object, what to do next.
 */
export interface Log {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(level: number, message: string, fields?: LogFields): void;
  /** The same log under a component's name. */
  child(component: string): Log;
}
