import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import type { ServiceRow, ServicesReply } from '../../explain/node/node-replies.ts';
import type { FleetServiceRow, FleetServicesReply, SilentNode } from '../fleet-replies.ts';
import type { Older } from '../older.ts';
import { checkedNumber, checkedRows, checkedText } from './checked.ts';
import { fleetReply } from './merge-facts.ts';

/** What was added up of one Service. */
interface Sum {
  nodes: number;
  activeConnections: number;
  inactiveConnections: number;
  counts: boolean;
  /** Numbers of nodes by the number of endpoints that they use. */
  readonly endpoints: Map<number, number>;
  /** Numbers of nodes by problem. */
  readonly problems: Map<string, number>;
}

/** Distinct problems of one Service that are kept. */
const MOST_PROBLEMS = 20;

/**
 * Adds up the Services of all nodes, one after the other, because the lists of 300 nodes would not fit into memory. The
 * order of the nodes does not matter, but for Services with more than twenty distinct problems.
 */
export class ServicesTally {
  readonly #sums = new Map<string, Sum>();
  #answered = 0;
  #more = 0;

  /** Adds the answer of a node. Throws, and adds nothing, if it has no rows or a field has another type. */
  add({ rows, more = 0 }: Older<ServicesReply>): void {
    const checked = checkedRows(rows).map(rowOf);
    this.#more = Math.max(this.#more, checkedNumber('more', more));
    this.#answered += 1;
    for (const row of checked) this.#addRow(row);
  }

  #addRow({ service, endpoints, activeConnections, inactiveConnections, problems }: ServiceRow): void {
    const sum = this.#sums.get(service) ?? {
      nodes: 0,
      activeConnections: 0,
      inactiveConnections: 0,
      counts: false,
      endpoints: new Map<number, number>(),
      problems: new Map<string, number>(),
    };
    this.#sums.set(service, sum);
    sum.nodes += 1;
    sum.activeConnections += activeConnections ?? 0;
    sum.inactiveConnections += inactiveConnections ?? 0;
    sum.counts ||= activeConnections !== undefined;
    sum.endpoints.set(endpoints, (sum.endpoints.get(endpoints) ?? 0) + 1);
    for (const problem of problems) {
      const known = sum.problems.get(problem);
      if (known !== undefined || sum.problems.size < MOST_PROBLEMS) sum.problems.set(problem, (known ?? 0) + 1);
    }
  }

  reply(silent: readonly SilentNode[]): FleetServicesReply {
    const rows = Array.from(this.#sums, ([service, sum]) => this.#rowOf(service, sum)).toSorted(
      (a, b) =>
        Number(a.problems.length === 0) - Number(b.problems.length === 0) ||
        (b.activeConnections ?? 0) - (a.activeConnections ?? 0) ||
        compareText(a.service, b.service),
    );
    const wrong = rows.filter(({ problems }) => problems.length > 0).length;
    const verdict = `${counted(rows.length, 'Service')}, ${wrong === 0 ? 'none' : wrong} with problems`;
    return {
      ...fleetReply('FleetServices', this.#answered, silent, { ok: wrong === 0, verdict }),
      rows,
      more: this.#more,
    };
  }

  #rowOf(service: string, sum: Sum): FleetServiceRow {
    const [usual] = Array.from(sum.endpoints).toSorted(([a, nodes], [b, others]) => others - nodes || b - a);
    const lacking = this.#answered - sum.nodes;
    const problems = Array.from(sum.problems, ([problem, nodes]) => ({ problem, nodes }));
    return {
      service,
      endpoints: usual?.[0] ?? 0,
      otherwise: sum.nodes - (usual?.[1] ?? 0),
      ...(sum.counts ? { activeConnections: sum.activeConnections, inactiveConnections: sum.inactiveConnections } : {}),
      problems: [
        // Of a list that is cut, nodes need not have the same part.
        ...(lacking > 0 && this.#more === 0 ? [{ problem: 'not known', nodes: lacking }] : []),
        ...problems.toSorted((a, b) => b.nodes - a.nodes || compareText(a.problem, b.problem)),
      ],
    };
  }
}

function rowOf({
  service = '',
  endpoints = 0,
  activeConnections,
  inactiveConnections,
  problems = [],
}: Older<ServiceRow>): ServiceRow {
  return {
    service: checkedText('service', service),
    endpoints: checkedNumber('endpoints', endpoints),
    ...(activeConnections === undefined
      ? {}
      : { activeConnections: checkedNumber('activeConnections', activeConnections) }),
    ...(inactiveConnections === undefined
      ? {}
      : { inactiveConnections: checkedNumber('inactiveConnections', inactiveConnections) }),
    problems: problems.map((problem) => checkedText('problem', problem)),
  };
}
