import { formatIp, type IpAddress } from '../../base/ip.ts';
import type { KubeProxyEvidence } from '../../explain/difference/explained-by-kube-proxy.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Op } from '../../state/op.ts';

/** Reads what tells the known differences from kube-proxy among these operations. */
export async function readEvidence(
  kernel: Pick<KernelReader, 'findVirtualServers' | 'getBoundAddresses'>,
  cluster: Pick<Cluster, 'names' | 'slices'>,
  ops: readonly Op[],
): Promise<KubeProxyEvidence> {
  const edited = ops.flatMap((op) => (op.kind === 'edit-virtual-server' ? [op.virtualServer] : []));
  const rebound = ops.some(({ kind }) => kind === 'bind-address');
  let endpoints: ReadonlySet<string> | undefined;
  return {
    virtualServers: edited.length === 0 ? new Map() : await kernel.findVirtualServers(edited),
    bound: new Set(rebound ? (await kernel.getBoundAddresses()).map(({ address }) => address) : []),
    isEndpoint: (address: IpAddress) => (endpoints ??= endpointAddresses(cluster)).has(formatIp(address)),
  };
}

function endpointAddresses(cluster: Pick<Cluster, 'names' | 'slices'>): ReadonlySet<string> {
  const slices = cluster.names().flatMap((name) => cluster.slices(name));
  return new Set(
    slices.flatMap(({ endpoints, unusable }) => [
      ...endpoints.map(({ address }) => formatIp(address)),
      ...unusable.map(({ address }) => address),
    ]),
  );
}
