import { HINTS_IGNORED } from './choice.ts';
import type { PortUse } from './endpoint-use.ts';
import { isServed, servedPort, whyUnserved } from './verdict.ts';

/** A fault of a Service that lies in the Service or its slices, so that all nodes find the same. */
export interface CommonFault {
  readonly reason: 'no-endpoint-used' | 'hints-ignored';
  readonly message: string;
}

/** Returns the first such fault: of a port that has endpoints but can use none of them, else of its hints. */
export function commonFault(ports: readonly PortUse[]): CommonFault | undefined {
  const unserved = ports.find(
    (port) => port.endpoints.length > 0 && !isServed(port) && port.endpoints.every(({ isMistake }) => isMistake),
  );
  if (unserved !== undefined) {
    return { reason: 'no-endpoint-used', message: whyUnserved(servedPort(unserved), ports.length) };
  }
  const ignored = ports
    .flatMap(({ notes }) => notes)
    .find(({ text, onAllNodes }) => onAllNodes && text.startsWith(HINTS_IGNORED));
  return ignored === undefined ? undefined : { reason: 'hints-ignored', message: ignored.text };
}
