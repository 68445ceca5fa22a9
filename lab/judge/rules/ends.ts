import { addressAndPort } from '../../../test/trace/address-text.ts';
import type { Alternative } from '../../../test/trace/explore.ts';
import type { End, Fate } from '../../../test/trace/trace.ts';
import type { Situation } from './intended.ts';
import type { Probe } from './probes.ts';

export type Ends = readonly Alternative<End>[];

export function isFromNode({ sender }: Probe): boolean {
  return sender === 'the node' || sender === 'the node, which has the address';
}

export function always(verdict: End['verdict']): Fate {
  return [{ value: { verdict, isMasqueraded: false, isAccepted: false, affinity: 0 }, probability: 1 }];
}

export function isAlways(fate: Fate, verdict: End['verdict']): boolean {
  return fate.every(({ value }) => value.verdict === verdict);
}

/** Whether an endpoint is the sender itself, whose packets are masqueraded in each case. */
export function isHairpin({ endpoint }: End, { packet }: Probe): boolean {
  return endpoint !== undefined && addressAndPort(endpoint).address === packet.source;
}

/** The same ends for another sender: masqueraded or not, beside those that lead back to it. */
export function forSender(ends: Ends, isMasqueraded: boolean, { given, probe }: Situation): Fate {
  return ends.map(({ value, probability }) => {
    const masquerades = isMasqueraded || isHairpin(value, probe);
    const isAccepted = given.mode === 'iptables' && masquerades && !isFromNode(probe);
    return { value: { ...value, isMasqueraded: masquerades, isAccepted }, probability };
  });
}
