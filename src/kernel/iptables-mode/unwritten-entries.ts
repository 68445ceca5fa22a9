import type { IpSetEntry } from '../../state/ip-set.ts';
import { ipSetName } from '../../state/ip-set.ts';
import type { Protocol } from '../../base/protocol.ts';
import { NODE_PORT_ROLES, type ProxyState } from './proxy-state.ts';
import { SETS, type Role } from './roles.ts';

/**
 * Copies the entries that no rule of the tables shows, because their virtual server is not written yet: those of another reading
 * are still wanted.
 */
export function carryUnwritten(from: ProxyState, to: ProxyState): void {
  for (const { name } of SETS[from.family].values()) {
    for (const entry of from.entriesOf(name)) if (!isWritten(from, name, entry)) to.setEntry(name, entry, true);
  }
}

/** Whether a rule shows that a set has an entry. */
function isWritten(state: ProxyState, set: string, entry: IpSetEntry): boolean {
  const is = (...roles: readonly Role[]): boolean => roles.some((role) => ipSetName(role, state.family) === set);
  if (entry.type === 'hash:ip') return true;
  if (entry.type === 'bitmap:port') {
    if (is('HEALTH-CHECK-NODE-PORT')) return true;
    return (Object.keys(NODE_PORT_ROLES) as Protocol[]).some(
      (protocol) =>
        is(...NODE_PORT_ROLES[protocol]) &&
        state.nodePortAddresses().some((address) => {
          const id = { address, port: entry.port, protocol };
          return state.server(id) !== undefined && state.roleOf(id).kind === 'nodePort';
        }),
    );
  }
  const id = { address: entry.address, port: entry.port, protocol: entry.protocol };
  if (state.server(id) === undefined) return false;
  if (!is('LOAD-BALANCER-FW', 'LOAD-BALANCER-SOURCE-CIDR', 'LOAD-BALANCER-SOURCE-IP')) return true;
  const isDenied = state.hasEntry(ipSetName('LOAD-BALANCER-FW', state.family), { type: 'hash:ip,port', ...id });
  return isDenied && state.roleOf(id).kind === 'loadBalancer';
}
