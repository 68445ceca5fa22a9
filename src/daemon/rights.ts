import { readFileSync } from 'node:fs';
import { StartupError } from './startup-error.ts';

/** linux/capability.h. */
const CAP_NET_ADMIN = 12n;
const CAP_NET_RAW = 13n;

/** The effective capabilities of /proc/self/status as bits; undefined where it has none. */
function effective(status: string): bigint | undefined {
  const bits = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  return bits === undefined ? undefined : BigInt(`0x${bits}`);
}

function has(bits: bigint, capability: bigint): boolean {
  return ((bits >> capability) & 1n) === 1n;
}

/**
 * Why the text of /proc/self/status does not allow what is to be done; undefined when it does, and without a line about rights: the
 * kernel itself will say then what is not allowed.
 *
 * @param rules iptables rules are to be written: iptables-legacy works by a raw socket, and in both variants a match on an ipset asks
 *   for the version of ipset by one. What they say without the right names neither.
 */
export function missingRight(status: string, rules: boolean): string | undefined {
  const bits = effective(status);
  if (bits === undefined) return undefined;
  if (!has(bits, CAP_NET_ADMIN)) {
    return "this process may not change the node's network: run it as root or with CAP_NET_ADMIN (in a Pod: securityContext.privileged: true)";
  }
  if (rules && !has(bits, CAP_NET_RAW)) {
    return 'this process may not open raw sockets, which iptables needs: add CAP_NET_RAW (in a Pod: securityContext.capabilities.add: [NET_ADMIN, NET_RAW])';
  }
  return undefined;
}

/** Said before anything else is tried: without these rights every other complaint would only be a symptom. */
export function requireRights(needs: { readonly rules: boolean }): void {
  const missing = missingRight(readFileSync('/proc/self/status', 'utf8'), needs.rules);
  if (missing !== undefined) throw new StartupError(missing);
}
