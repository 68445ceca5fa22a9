import type { IpAddress } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import { ipSetName } from '../../state/ip-set.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { type ProxyState, nameOf, servicePortKey } from './proxy-state.ts';
import type { StateOp } from './state-change.ts';

/** What belongs to no service port. */
export const NODE = 'node';

/** Names the service ports to which operations belong, with the virtual servers before and those of the operations. */
export class UnitOwners {
  readonly #state: ProxyState;
  /** The names of the virtual servers that the operations add or edit. */
  readonly #names = new Map<VirtualServerKey, string>();
  /** Virtual servers that entries of the operations call something else than a node port. */
  readonly #others = new Set<VirtualServerKey>();
  readonly #nodeAddresses: Set<IpAddress>;

  constructor(state: ProxyState, ops: readonly StateOp[]) {
    this.#state = state;
    this.#nodeAddresses = new Set(state.nodePortAddresses());
    const nodePortIp = ipSetName('NODE-PORT-IP', state.family);
    for (const op of ops) {
      if ('virtualServer' in op) {
        const { virtualServer } = op;
        this.#names.set(virtualServerKey(virtualServer), servicePortKey(nameOf(virtualServer), virtualServer.protocol));
      } else if (op.kind === 'add-entry') {
        if (op.entry.type === 'hash:ip,port') this.#others.add(virtualServerKey(op.entry));
        if (op.entry.type === 'hash:ip' && op.set.name === nodePortIp) this.#nodeAddresses.add(op.entry.address);
      }
    }
  }

  ofServer(id: VirtualServerId): string {
    return this.#known(id) ?? String(virtualServerKey(id));
  }

  #known(id: VirtualServerId): string | undefined {
    const server = this.#state.server(id);
    const before = server === undefined ? undefined : servicePortKey(server.name, id.protocol);
    return this.#names.get(virtualServerKey(id)) ?? before;
  }

  /** The service port that has a virtual server at the port of an address of the node, unless that is another kind of address. */
  ofNodePort(protocol: Protocol, port: Port): string {
    for (const address of this.#nodeAddresses) {
      const id = { address, protocol, port };
      const isOther =
        this.#others.has(virtualServerKey(id)) || !['nodePort', 'address'].includes(this.#state.roleOf(id).kind);
      const name = isOther ? undefined : this.#known(id);
      if (name !== undefined) return name;
    }
    return NODE;
  }
}
