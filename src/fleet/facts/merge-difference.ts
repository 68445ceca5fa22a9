import { counted } from '../../base/text/counted.ts';
import type { DifferenceReply } from '../../explain/replies.ts';
import type { FleetDifferenceReply, SilentNode } from '../fleet-replies.ts';
import type { Older } from '../older.ts';
import { mergeFacts } from './merge-facts.ts';
import { firstLine } from './service-facts.ts';
import type { Facts } from './facts.ts';

/** Operations of one node that are kept. */
const MOST_OPERATIONS = 20;

/** Reads the answer of a node. A known difference of a dry run is none. Throws if a field has another type. */
export function differenceFacts(node: string, { operations = [], more = 0 }: Older<DifferenceReply>): Facts {
  const unexpected = operations.filter(({ known }) => known === undefined);
  const first = unexpected.slice(0, MOST_OPERATIONS);
  const left = unexpected.length - first.length + more;
  return {
    node,
    faults: [
      ...first.map(({ service, command = '' }) => `${service ?? 'the node'}: ${firstLine(command)}`),
      ...(left === 0 ? [] : [`and ${counted(left, 'more operation')}`]),
    ],
    properties: new Map(),
    lists: new Map(),
  };
}

/** Merges the differences of all nodes. Their order does not matter. */
export function mergeDifference(answers: readonly Facts[], silent: readonly SilentNode[]): FleetDifferenceReply {
  return mergeFacts('FleetDifference', answers, silent, true);
}
