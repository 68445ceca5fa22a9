import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import { type FamilyView, serve } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';
import { CLAIM_RANK } from './claim-rank.ts';
import type { SetRole } from './set-names.ts';

const ROLES = {
  TCP: { all: 'NODE-PORT-TCP', local: 'NODE-PORT-LOCAL-TCP' },
  UDP: { all: 'NODE-PORT-UDP', local: 'NODE-PORT-LOCAL-UDP' },
  SCTP: { all: 'NODE-PORT-SCTP-HASH', local: 'NODE-PORT-LOCAL-SCTP-HASH' },
} as const satisfies Record<Protocol, { all: SetRole; local: SetRole }>;

/** Plans node ports at every selected address of the node. They follow the external traffic policy. */
export function planNodePorts(draft: PlanDraft, view: FamilyView): void {
  if (view.nodeAddresses.length === 0) return;
  for (const port of view.ports) {
    if (port.nodePort === undefined) continue;
    const roles = ROLES[port.protocol];
    addEntries(draft, view, roles.all, port.protocol, port.nodePort);
    if (view.service.externalLocal) addEntries(draft, view, roles.local, port.protocol, port.nodePort);
    for (const address of view.nodeAddresses) {
      if (!draft.limit.admits(port.destinations.external.length)) continue;
      serve(draft, view, port, { address, port: port.nodePort, rank: CLAIM_RANK.nodePort }, port.destinations.external);
    }
  }
}

// bitmap:port sets exist for TCP and UDP only; SCTP uses hash:ip,port, which needs an entry for each address.
function addEntries(draft: PlanDraft, view: FamilyView, role: SetRole, protocol: Protocol, port: Port): void {
  if (protocol !== 'SCTP') {
    draft.addEntry(role, view.family, { type: 'bitmap:port', port });
    return;
  }
  for (const address of view.nodeAddresses) {
    draft.addEntry(role, view.family, { type: 'hash:ip,port', address, protocol, port });
  }
}
