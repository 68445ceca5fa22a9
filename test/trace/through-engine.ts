import { formatHostPort } from '../../src/base/ip.ts';
import type { ForwardedPort } from '../../src/userspace/engine-update.ts';
import type { Fate } from './trace.ts';

/** The ends of a packet that an engine of the node forwards: each endpoint sees the node. @param port undefined: none does */
export function throughEngine(fate: Fate, port: ForwardedPort | undefined): Fate {
  if (port === undefined) return fate;
  const endpoints = port.endpoints.filter(({ weight }) => weight > 0);
  return fate.flatMap(({ value, probability }) => {
    if (value.verdict !== 'translated') return [{ value, probability }];
    return endpoints.map(({ address: at, port: to }) => {
      const end = { ...value, endpoint: formatHostPort(at, to), isMasqueraded: true, affinity: port.affinitySeconds };
      return { value: end, probability: probability / endpoints.length };
    });
  });
}
