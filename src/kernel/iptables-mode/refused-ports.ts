import type { ProxyState, ServicePortKey } from './proxy-state.ts';
import { type Unit, touchedPorts } from './state-change.ts';

/**
 * How many refused service ports are remembered. Those of deleted Services are never tried again, so they are the first that
 * others displace.
 */
const MOST_REMEMBERED = 65_536;

/** The service ports whose rules iptables has refused. */
export class RefusedPorts {
  /** In the order in which they are tried again. */
  readonly #ports = new Set<ServicePortKey>();
  readonly #most: number;

  constructor(most = MOST_REMEMBERED) {
    this.#most = most;
  }

  /** Divides units: those of refused service ports, in the order of their next attempt, and the others. */
  apart(units: readonly Unit[], state: ProxyState): Record<'known' | 'others', readonly Unit[]> {
    if (this.#ports.size === 0) return { known: [], others: units };
    const turns = new Map(Array.from(this.#ports, (port, turn) => [port, turn]));
    const turnOf = (unit: Unit): number => {
      let first = Infinity;
      for (const port of touchedPorts(state, unit)) first = Math.min(first, turns.get(port) ?? Infinity);
      return first;
    };
    const inTurn = units.map((unit) => ({ unit, turn: turnOf(unit) })).sort((a, b) => a.turn - b.turn);
    const { known = [], others = [] } = Object.groupBy(inTurn, ({ turn }) => (turn < Infinity ? 'known' : 'others'));
    return { known: known.map(({ unit }) => unit), others: others.map(({ unit }) => unit) };
  }

  /** They come last in turn. */
  remember(units: readonly Unit[], state: ProxyState): void {
    for (const port of touchedPorts(state, units.flat())) {
      this.#ports.delete(port);
      this.#ports.add(port);
    }
    for (const port of this.#ports) {
      if (this.#ports.size <= this.#most) break;
      this.#ports.delete(port);
    }
  }

  forgive(units: readonly Unit[], state: ProxyState): void {
    if (this.#ports.size === 0) return;
    for (const port of touchedPorts(state, units.flat())) this.#ports.delete(port);
  }
}
