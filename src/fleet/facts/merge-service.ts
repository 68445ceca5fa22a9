import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import type { FleetServiceReply, SilentNode } from '../fleet-replies.ts';
import { mergeFacts } from './merge-facts.ts';
import type { ServiceFacts } from './service-facts.ts';

/**
 * Merges what all nodes say of a Service; their order does not matter. The verdict is that of most nodes. Endpoints may
 * differ for good reasons, such as zones: differences alone do not make it wrong.
 */
export function mergeService(
  service: string,
  answers: readonly ServiceFacts[],
  silent: readonly SilentNode[],
): FleetServiceReply {
  const [most] = Array.from(Map.groupBy(answers, ({ verdict }) => verdict).entries()).toSorted(
    ([a, nodes], [b, others]) => others.length - nodes.length || compareText(a, b),
  );
  const usual = most === undefined ? undefined : { verdict: most[0], nodes: most[1].length };
  const facts = answers.map((answer) =>
    answer.ok || answer.verdict === usual?.verdict ? answer : { ...answer, faults: [answer.verdict, ...answer.faults] },
  );
  const reply = mergeFacts('FleetService', facts, silent, false);
  const wrong = answers.filter(({ ok }) => !ok).length;
  return {
    ...reply,
    ok: reply.ok && wrong === 0,
    ...(usual === undefined ? {} : { usual }),
    service,
    wrong,
    verdict: `${reply.verdict}; ${wrong === 0 ? 'it is served on all that answer' : `it is not as it should be on ${counted(wrong, 'node')}`}`,
  };
}
