import type { Alternative } from '../../../test/trace/explore.ts';
import { type End, type Fate, endText } from '../../../test/trace/trace.ts';

/** For example "0.5 translated to 10.244.0.1:8080 | 0.5 translated to 10.244.0.2:8080, masqueraded". */
export function fateText(fate: Fate): string {
  return fate
    .map(({ value, probability }) => `${Number(probability.toFixed(4))} ${endText(value)}`)
    .sort()
    .join(' | ');
}

/** Reads what fateText() writes. */
export function fateOfText(text: string): Fate {
  return text.split(' | ').map((alternative): Alternative<End> => {
    const [, probability, verdict, endpoint] = /^(\S+) ([a-z]+)(?: to ([^,]+))?/.exec(alternative) ?? [];
    if (!isVerdict(verdict)) throw new Error(`not the fate of a packet: ${alternative}`);
    const affinity = Number(/affinity (\d+)s/.exec(alternative)?.[1] ?? 0);
    return {
      value: {
        verdict,
        endpoint,
        isMasqueraded: alternative.includes(', masqueraded'),
        isAccepted: alternative.includes(', accepted'),
        affinity,
      },
      probability: Number(probability),
    };
  });
}

const VERDICTS: readonly string[] = [
  'translated',
  'here',
  'forwarded',
  'rejected',
  'dropped',
] satisfies End['verdict'][];

function isVerdict(text: string | undefined): text is End['verdict'] {
  return text !== undefined && VERDICTS.includes(text);
}
