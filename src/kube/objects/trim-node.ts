import type { Interner } from './interner.ts';
import { itemsOf, recordOf, textOf, textsOf } from './json.ts';
import type { Node } from './objects.ts';
import { type Trimmed, trimObject } from './trim-meta.ts';

function trimAddress(value: unknown): Node['addresses'][number] | undefined {
  const { type, address } = recordOf(value);
  return typeof type === 'string' && typeof address === 'string' ? { type, address } : undefined;
}

/** Returns podCIDRs; if it is empty, the older field podCIDR. */
function podCidrs(spec: Readonly<Record<string, unknown>>): readonly string[] {
  const all = textsOf(spec['podCIDRs']);
  const single = textOf(spec['podCIDR']);
  return all.length > 0 || single === undefined || single === '' ? all : [single];
}

/** Reads a v1 Node. */
export function trimNode(value: unknown, interner: Interner): Trimmed<Node> {
  return trimObject('Node', value, interner, (object, meta) => {
    const spec = recordOf(object['spec']);
    return {
      meta,
      podCIDRs: podCidrs(spec),
      taintKeys: itemsOf(spec['taints'], (taint) => textOf(recordOf(taint)['key'])),
      addresses: itemsOf(recordOf(object['status'])['addresses'], trimAddress),
    };
  });
}
