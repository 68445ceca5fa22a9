import type { TrialContext } from '../context.ts';
import type { Failure } from '../judge.ts';

/** Neither the node of the client in a Pod nor that which the client on the host goes through. */
export function middleNode({ state }: TrialContext): string {
  const node = state.nodes[1]?.name;
  if (node === undefined || state.nodes.length < 3) throw new Error('this trial needs three nodes');
  return node;
}

/** The NodePort of a node that serves only from its own servers. */
export function isLocalPort(node: string): (target: string) => boolean {
  return (target) => target.startsWith(`Local NodePort of ${node}`);
}

/** New connections to that NodePort. */
export function atLocalPort(node: string): (failure: Failure) => boolean {
  return ({ target, cut }) => !cut && isLocalPort(node)(target);
}

/** Connections to addresses of a node. */
export function atNode(node: string): (failure: Failure) => boolean {
  return ({ target }) => target.includes(`NodePort of ${node}`);
}
