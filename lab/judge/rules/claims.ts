import { cidrContains, parseCidr } from '../../../src/base/cidr.ts';
import { familyOf } from '../../../src/base/ip.ts';
import type { Frontend } from '../case/served.ts';
import type { Probe } from './probes.ts';

export function isExternal({ kind }: Frontend): boolean {
  return kind !== 'cluster IP';
}

/**
 * Whether two packets of a family are for the same port of the same Service. The other one is for an external address that
 * no other Service wants.
 */
export function isSamePort(probe: Probe, { target }: Probe): boolean {
  if (familyOf(probe.target.address) !== familyOf(target.address) || !target.claims.some(isExternal)) return false;
  return target.claims.every((claim) =>
    probe.target.claims.some((own) => own.service === claim.service && own.port === claim.port),
  );
}

/** The external claim with policy Local that decides about a packet. */
export function localClaim({ target }: Probe): Frontend | undefined {
  return target.claims.find(isLocal);
}

export function isLocal(claim: Frontend): boolean {
  return isExternal(claim) && claim.service.spec.externalTrafficPolicy === 'Local';
}

export function isAdmitted(claim: Frontend, { packet }: Probe): boolean {
  const ranges = (claim.service.spec.loadBalancerSourceRanges ?? []).flatMap((text) => parseCidr(text.trim()) ?? []);
  const ofFamily = ranges.filter(({ address }) => familyOf(address) === familyOf(packet.source));
  if (claim.kind !== 'load balancer IP' || ofFamily.length === 0) return true;
  return ofFamily.some((range) => cidrContains(range, packet.source));
}
