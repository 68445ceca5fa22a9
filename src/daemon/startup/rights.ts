import { readFileSync } from 'node:fs';
import { StartupError } from './startup-error.ts';

/** Bits of the effective capabilities (linux/capability.h). */
const CAP_NET_ADMIN = 1n << 12n;
const CAP_NET_RAW = 1n << 13n;
const CAP_SYS_ADMIN = 1n << 21n;

export interface NeededRights {
  /**
   * Whether iptables rules will be written. iptables-legacy uses a raw socket, and in both variants a match on a set
   * queries the ipset version over a raw socket. The error messages do not name the missing capability.
   */
  readonly rules: boolean;
  /** Whether network namespaces of Pods will be entered. */
  readonly podNamespaces?: boolean;
}

/**
 * Returns which capability is missing according to the text of /proc/self/status; undefined if none is, or if there is
 * no CapEff line: the kernel then reports what is not permitted.
 */
export function missingRight(status: string, { rules, podNamespaces = false }: NeededRights): string | undefined {
  const bits = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (bits === undefined) return undefined;
  const effective = BigInt(`0x${bits}`);
  if ((effective & CAP_NET_ADMIN) === 0n) {
    return "this process may not change the node's network: run it as root or with CAP_NET_ADMIN (in a Pod: securityContext.privileged: true)";
  }
  if (rules && (effective & CAP_NET_RAW) === 0n) {
    return 'this process may not open raw sockets, which iptables needs: add CAP_NET_RAW (in a Pod: securityContext.capabilities.add: [NET_ADMIN, NET_RAW])';
  }
  if (podNamespaces && (effective & CAP_SYS_ADMIN) === 0n) {
    return '--dsr-prepare-pods: this process may not enter the network namespaces of Pods: add CAP_SYS_ADMIN (in a Pod: securityContext.privileged: true), or remove the flag';
  }
  return undefined;
}

/** Throws a StartupError if a capability is missing. Call it first: any other error would only be a symptom. */
export function requireRights(needs: NeededRights): void {
  const missing = missingRight(readFileSync('/proc/self/status', 'utf8'), needs);
  if (missing !== undefined) throw new StartupError(missing);
}
