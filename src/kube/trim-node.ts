import type { Interner } from './interner.ts';
import { isRecord, itemsOf, recordOf, textOf, textOr, textsOf } from './json.ts';
import type { Node, NodeTaint } from './objects.ts';
import type { Trimmed } from './trim-meta.ts';
import { trimMeta } from './trim-meta.ts';

function trimTaint(value: unknown): NodeTaint | undefined {
  const taint = recordOf(value);
  const key = textOr(taint['key'], '');
  return key === '' ? undefined : { key, value: textOr(taint['value'], ''), effect: textOr(taint['effect'], '') };
}

function trimAddress(value: unknown): Node['addresses'][number] | undefined {
  const { type, address } = recordOf(value);
  return typeof type === 'string' && typeof address === 'string' ? { type, address } : undefined;
}

/** podCIDRs, or the single podCIDR of servers and manifests that have only that. */
function podCidrs(spec: Readonly<Record<string, unknown>>): readonly string[] {
  const all = textsOf(spec['podCIDRs']);
  const single = textOf(spec['podCIDR']);
  return all.length > 0 || single === undefined || single === '' ? all : [single];
}

/** Reads a v1 Node. */
export function trimNode(value: unknown, interner: Interner): Trimmed<Node> {
  if (!isRecord(value)) return { object: undefined, reason: 'the Node is no object' };
  const meta = trimMeta(value, interner);
  if (meta === undefined) return { object: undefined, reason: 'the Node has no metadata.name' };
  const spec = recordOf(value['spec']);
  return {
    object: {
      meta,
      podCIDRs: podCidrs(spec),
      taints: itemsOf(spec['taints'], trimTaint),
      addresses: itemsOf(recordOf(value['status'])['addresses'], trimAddress),
    },
  };
}
