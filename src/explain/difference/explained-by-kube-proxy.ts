import { type IpAddress, isIp4, isLinkLocal6, isLoopback } from '../../base/ip.ts';
import { setName } from '../../state/set-roles.ts';
import type { KnownDifference } from '../../state/rules/known-difference.ts';
import type { Op } from '../../state/op.ts';
import {
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
  type VirtualServer,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';

/** What decides whether kube-proxy explains a difference. */
export interface KubeProxyEvidence {
  /** The virtual servers that differ, as the kernel has them. */
  readonly virtualServers: ReadonlyMap<VirtualServerKey, VirtualServer>;
  /** The addresses of kube-ipvs0. */
  readonly bound: ReadonlySet<IpAddress>;
  /** Whether a slice has an endpoint with this address, ready or not. */
  readonly isEndpoint: (address: IpAddress) => boolean;
}

const NODE_PORT_IP: ReadonlySet<string> = new Set([setName('NODE-PORT-IP', 4), setName('NODE-PORT-IP', 6)]);
const IPVS_IPS: ReadonlySet<string> = new Set([setName('IPVS-IPS', 4), setName('IPVS-IPS', 6)]);
const LOOP_BACK: ReadonlySet<string> = new Set([setName('LOOP-BACK', 4), setName('LOOP-BACK', 6)]);
const SCHEDULER_FLAGS = VS_SCHED_FALLBACK | VS_SCHED_PORT;

/** Returns which difference from kube-proxy (docs/differences.md) explains each operation; undefined: unexpected. */
export function knownDifferences(
  ops: readonly Op[],
  evidence: KubeProxyEvidence,
): (op: Op) => KnownDifference | undefined {
  const created = new Set(ops.flatMap((op) => (op.kind === 'create-set' ? [op.set.name] : [])));
  const filled = new Set(ops.flatMap((op) => (op.kind === 'add-entry' ? [op.set.name] : [])));
  return (op) => {
    if (op.kind === 'create-set' || op.kind === 'add-entry' || op.kind === 'delete-entry') {
      return knownSetChange(op, created, filled, evidence);
    }
    if (op.kind === 'bind-address') {
      // Bound, so only its flags or its lifetime differ.
      return op.again !== true && !isIp4(op.address) && evidence.bound.has(op.address) ? 'ipv6-lifetime' : undefined;
    }
    if (op.kind === 'edit-virtual-server') {
      return differsByFlags(op.virtualServer, evidence) ? 'scheduler-flags' : undefined;
    }
    const served = op.kind === 'delete-virtual-server' ? op.id.address : undefined;
    const isUnservable = served !== undefined && (isLoopback(served) || isLinkLocal6(served));
    return isUnservable ? 'node-port-on-loopback' : undefined;
  };
}

function knownSetChange(
  op: Extract<Op, { readonly kind: 'create-set' | 'add-entry' | 'delete-entry' }>,
  created: ReadonlySet<string>,
  filled: ReadonlySet<string>,
  { isEndpoint }: KubeProxyEvidence,
): KnownDifference | undefined {
  const { name } = op.set;
  if (NODE_PORT_IP.has(name)) return 'node-port-addresses';
  if (IPVS_IPS.has(name) && created.has(name)) return 'closed-addresses';
  if (op.kind === 'create-set') return filled.has(name) ? undefined : 'empty-set';
  if (op.kind === 'add-entry' || !LOOP_BACK.has(name) || !('address' in op.entry)) return undefined;
  return isEndpoint(op.entry.address) ? 'loop-back' : undefined;
}

/** Whether only the flags differ that we set for the hashing schedulers. */
function differsByFlags(wanted: VirtualServer, { virtualServers }: KubeProxyEvidence): boolean {
  const found = virtualServers.get(virtualServerKey(wanted));
  if (found === undefined || found.scheduler !== wanted.scheduler || found.timeout !== wanted.timeout) return false;
  return (found.flags & ~SCHEDULER_FLAGS) === (wanted.flags & ~SCHEDULER_FLAGS) && found.prefix === wanted.prefix;
}
