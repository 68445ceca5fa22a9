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

/** Throws a QuestionError in other modes. */
export function requireIpvs(mode: ProxyMode, refusal: string): void {
  if (!MODES[mode].hasIpvs) throw new QuestionError(400, `in ${mode} mode ${refusal}`);
}
