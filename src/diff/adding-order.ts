import { type IpAddress, isIp4 } from '../base/ip.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServer, VirtualServerId } from '../state/virtual-server.ts';

/**
 * With sh, dh and mh, the order of the real servers decides which one is chosen, so it must be the same on all nodes.
 * In the modes that choose at random, the order does not matter.
 */
const NOT_ROTATED: ReadonlySet<string> = new Set(['sh', 'dh', 'mh', 'random']);

/** Returns the real servers to add to a virtual server, which are sorted, in the order to add them. */
export type AddingOrder = (virtualServer: VirtualServer, sorted: readonly RealServer[]) => readonly RealServer[];

/**
 * Returns the order of a node. The kernel inserts each new real server at the head of its list, where rr starts. If all
 * nodes used the same order, the first connection of every node would go to the same endpoint. Each node therefore
 * rotates the sorted list by a hash of its name and the virtual server.
 */
export function addingOrder({ nodeName }: { readonly nodeName: string }): AddingOrder {
  const seed = hashText(nodeName);
  return (virtualServer, sorted) => {
    if (NOT_ROTATED.has(virtualServer.scheduler) || sorted.length < 2) return sorted;
    const offset = mix(seed, virtualServer) % sorted.length;
    return [...sorted.slice(offset), ...sorted.slice(0, offset)];
  };
}

/** Returns the 32-bit FNV-1a hash. */
function hashText(text: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x0100_0193);
  return hash;
}

/** Uses the finalizer of MurmurHash3: every bit of the input affects every bit of the result. */
function mix(seed: number, { address, port }: VirtualServerId): number {
  let hash = seed ^ lowBits(address) ^ Math.imul(port, 0x9e37_79b1);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function lowBits(address: IpAddress): number {
  return isIp4(address) ? address | 0 : Number(BigInt.asIntN(32, address));
}
