import type { IpSetEntry } from '../../state/ip-set.ts';
import type { ProxyState, ServicePortKey } from './proxy-state.ts';
import { localnetRules, ruleOfEntry } from './node-sets.ts';
import type { RefusedLine } from './refused-lines.ts';
import type { Rendered, SharedRule } from './render/service-port.ts';
import { type Unit, isEntryOp, touchedPorts } from './state-change.ts';
import { chainKey, ruleKey } from './table-image.ts';

/**
 * Returns the units that own one of these lines; all units if the lines belong to what all need. `state` must not have
 * the changes.
 */
export type OwnersOf = (state: ProxyState, units: readonly Unit[], lines: readonly RefusedLine[]) => readonly Unit[];

/**
 * Returns a look-up of the operations whose rules a script writes.
 *
 * @param renderings of each of the service ports, before and after the change
 */
export function ruleOwners(
  ports: readonly ServicePortKey[],
  ...renderings: readonly (readonly Rendered[])[]
): OwnersOf {
  return (state, units, lines) => {
    const keys = new Set(lines.flatMap(keysOf));
    if (keys.size === 0) return [];
    const changed = new Set(ports.filter((_port, at) => renderings.some((all) => has(all[at], keys))));
    const owners = units.filter(
      (unit) =>
        [...touchedPorts(state, unit)].some((port) => changed.has(port)) ||
        unit.some((op) => isEntryOp(op) && rulesOf(op.entry).some((rule) => keys.has(ruleKey(rule)))),
    );
    return owners.length > 0 ? owners : units;
  };
}

function rulesOf(entry: IpSetEntry): readonly SharedRule[] {
  return [...ruleOfEntry(entry), ...(entry.type === 'hash:ip' ? localnetRules([entry.address]) : [])];
}

function has(rendered: Rendered | undefined, keys: ReadonlySet<string>): boolean {
  if (rendered === undefined) return false;
  return (
    rendered.chains.some((chain) => keys.has(chainKey(chain))) ||
    rendered.shared.some((rule) => keys.has(ruleKey(rule)))
  );
}

/** A line belongs to a chain, or it is a rule of a chain that service ports share. */
function keysOf({ table, line }: RefusedLine): readonly string[] {
  const [, name, rule = ''] = /^(?::|-[AIDX] )(\S+) ?(.*)$/.exec(line) ?? [];
  return name === undefined ? [] : [chainKey({ table, name }), ruleKey({ table, chain: name, rule })];
}
