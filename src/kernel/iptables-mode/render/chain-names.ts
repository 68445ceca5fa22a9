import { hash } from 'node:crypto';
import { formatHostPort } from '../../../base/ip.ts';
import type { Protocol } from '../../../base/protocol.ts';
import type { Endpoint } from '../../../state/real-server.ts';

/**
 * Chains of single service ports, of which KUBE-XLB is that of kube-proxy before 1.25, and what a probe of extensions may leave when
 * it is killed.
 */
export const OWN_CHAIN = /^KUBE-(?:(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z0-9]{16}|EXTENSION-PROBE)$/;

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const HASH_LENGTH = 16;

/** Returns the first 16 characters of the SHA-256 hash in base32, as kube-proxy does. */
function hash16(text: string): string {
  const bytes = hash('sha256', text, 'buffer');
  let bits = 0;
  let value = 0;
  let name = '';
  for (let at = 0; name.length < HASH_LENGTH;) {
    if (bits < 5) {
      value = ((value & 31) << 8) | (bytes[at++] as number);
      bits += 8;
    }
    bits -= 5;
    name += ALPHABET[(value >>> bits) & 31];
  }
  return name;
}

/** What the chains of a service port are named after: its name, and the protocol in lower case. */
export type ChainOwner = { readonly name: string; readonly protocol: Protocol };

export type ChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW';

/**
 * Returns the name of a chain of a service port, which is that of kube-proxy. `firstAddress`, with the port, distinguishes further chains
 * of the same kind, which kube-proxy does not have.
 */
export function portChain(kind: ChainKind, { name, protocol }: ChainOwner, firstAddress = ''): string {
  return `KUBE-${kind}-${hash16(name + protocol.toLowerCase() + firstAddress)}`;
}

export function endpointChain({ name, protocol }: ChainOwner, { address, port }: Endpoint): string {
  return `KUBE-SEP-${hash16(name + protocol.toLowerCase() + formatHostPort(address, port))}`;
}
