import { counted } from '../base/text/counted.ts';
import type { RefusedReply } from '../explain/replies.ts';

export function refusedText({ command, why, attempts }: RefusedReply): string {
  return `${command}: ${why} (${counted(attempts, 'attempt')})`;
}
