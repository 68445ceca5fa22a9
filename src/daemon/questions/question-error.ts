import { MODES, type ProxyMode } from '../../base/proxy-mode.ts';

/** A question that cannot be answered. The message is one sentence for the person who asked. */
export class QuestionError extends Error {
  override readonly name = 'QuestionError';
  readonly status: 400 | 404 | 503;

  constructor(status: QuestionError['status'], message: string) {
    super(message);
    this.status = status;
  }
}

/** Throws a QuestionError in modes that do not count. @param hasDaemon whether the answer comes from the daemon */
export function requireCounters(mode: ProxyMode, hasDaemon: boolean): void {
  const { hasIpvs, forwards = false } = MODES[mode];
  if (hasIpvs || (forwards && hasDaemon)) return;
  const why = forwards ? 'only the daemon counts the traffic of Services' : 'the traffic of Services is not counted';
  throw new QuestionError(400, `in ${mode} mode ${why}`);
}
