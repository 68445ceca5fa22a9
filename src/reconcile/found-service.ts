import type { NamespacedName } from '../base/names.ts';
import type { FoundService } from '../explain/service-reply.ts';
import { virtualServerKey } from '../state/virtual-server.ts';
import { type DifferenceParts, differenceOf } from './difference.ts';

type Parts = Pick<DifferenceParts, 'kernel' | 'desired' | 'order' | 'clock'>;

/** Reads what the kernel has of a Service. Reads again if it differs, because a sync may be writing it. */
export async function readFoundService(parts: Parts, name: NamespacedName): Promise<FoundService> {
  const found = await readOnce(parts, name);
  const differs = found.unbound.size > 0 || [...found.ops.values()].some((ops) => ops.length > 0);
  return differs ? readOnce(parts, name) : found;
}

async function readOnce(parts: Parts, name: NamespacedName): Promise<FoundService> {
  const { kernel, desired } = parts;
  const { plan } = desired;
  const planned = plan.service(name);
  const own = (planned?.virtualServers ?? []).filter(
    ({ virtualServer }) => plan.ownerOf(virtualServerKey(virtualServer)) === name,
  );
  const bound = new Set((await kernel.getBoundAddresses()).map(({ address }) => address));
  const wanted = (planned?.addresses ?? []).filter((address) => plan.wantsAddress(address));
  return {
    ops: await differenceOf(parts, own),
    realServers: await kernel.getRealServers(own.map(({ virtualServer }) => virtualServer)),
    unbound: new Set(wanted.filter((address) => !bound.has(address))),
  };
}
