import type { IpFamily } from '../../../base/ip.ts';
import { type SetRole, setName } from '../../../state/set-roles.ts';

/** The iptables arguments of a rule, or of a part of it. */
export type Rule = readonly string[];

/** Which addresses and ports of the packet are looked up, one for each dimension of the set. */
export type SetDirections = 'src' | 'dst' | 'dst,dst' | 'src,dst' | 'dst,dst,src';

export function inSet(role: SetRole, family: IpFamily, directions: SetDirections): Rule {
  return ['-m', 'set', '--match-set', setName(role, family), directions];
}

export function comment(text: string): Rule {
  return ['-m', 'comment', '--comment', text];
}

/** Jumps to a chain of ours, or to ACCEPT, DROP, REJECT, RETURN. */
export function target(name: string): Rule {
  return ['-j', name];
}

export function rule(...parts: readonly Rule[]): Rule {
  return parts.flat();
}

/** Match packets to a local address, and packets not from one. Addresses of kube-ipvs0 are local. */
export const TO_LOCAL: Rule = ['-m', 'addrtype', '--dst-type', 'LOCAL'];
export const FROM_ELSEWHERE: Rule = ['-m', 'addrtype', '!', '--src-type', 'LOCAL'];
