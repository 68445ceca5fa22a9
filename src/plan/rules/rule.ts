import type { IpFamily } from '../../net/ip.ts';
import { type SetRole, setName } from '../set-names.ts';

/** One rule, or a piece of one: an argument a string. */
export type Rule = readonly string[];

/** Which addresses and ports of the packet are looked up, one for each dimension of the set. */
export type SetDirections = 'src' | 'dst' | 'dst,dst' | 'src,dst' | 'dst,dst,src';

export function inSet(role: SetRole, family: IpFamily, directions: SetDirections): Rule {
  return ['-m', 'set', '--match-set', setName(role, family), directions];
}

export function comment(text: string): Rule {
  return ['-m', 'comment', '--comment', text];
}

/** To a chain of ours, or ACCEPT, DROP, REJECT, RETURN. */
export function target(name: string): Rule {
  return ['-j', name];
}

/** Puts the pieces of a rule together. */
export function rule(...pieces: readonly Rule[]): Rule {
  return pieces.flat();
}

/** A mark's bit as the tools take it. */
export function hexMark(mark: number): string {
  return `0x${(mark >>> 0).toString(16)}`;
}

/** The destination (or source) is an address of this node; those of kube-ipvs0 count. */
export const TO_LOCAL: Rule = ['-m', 'addrtype', '--dst-type', 'LOCAL'];
export const FROM_ELSEWHERE: Rule = ['-m', 'addrtype', '!', '--src-type', 'LOCAL'];
