import type { StatusReply } from '../../explain/replies.ts';
import type { KernelReader } from '../../kernel/kernel.ts';

/** Returns the number of flows, and the limit. Undefined if connection tracking is not loaded. */
export async function conntrackUse(kernel: Pick<KernelReader, 'getSysctl'>): Promise<StatusReply['conntrack']> {
  const [used, max] = await Promise.all(
    ['count', 'max'].map((key) => kernel.getSysctl(`net/netfilter/nf_conntrack_${key}`)),
  );
  return used === undefined || max === undefined ? undefined : { used: Number(used), max: Number(max) };
}
