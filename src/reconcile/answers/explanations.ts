import type { IpAddress } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import { Yielder } from '../../base/yielder.ts';
import { type AskedAddress, addressReply, plannedAt } from '../../explain/address-reply.ts';
import { packetReply } from '../../explain/packet/packet-reply.ts';
import { type Problem, packetTarget } from '../../explain/packet/packet-target.ts';
import type { AddressOwnerReply, PacketReply, ServiceReply } from '../../explain/replies.ts';
import { serviceReply } from '../../explain/service-reply.ts';
import { wordsOf } from '../../explain/words.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { DifferenceParts } from './difference.ts';
import { readFoundAddress } from './found-address.ts';
import { type PacketParts, readFoundPacket } from './found-packet.ts';
import { type ServiceParts, readFoundService } from './found-service.ts';

/** Explains a Service: its plan, and what the kernel has of it. Undefined if the Service is unknown. */
export async function explainService(
  parts: DifferenceParts & ServiceParts,
  cluster: Cluster,
  name: NamespacedName,
): Promise<ServiceReply | undefined> {
  const found = await readFoundService(parts, name);
  const definition = cluster.definition(name);
  if (definition === undefined) return undefined;
  const { config, desired } = parts;
  const node = desired.nodeView();
  const words = wordsOf(parts.kernel.mode);
  const known = { name, definition, slices: cluster.slices(name), node, config, plan: desired.plan, found, words };
  return new Yielder().finish(serviceReply(known));
}

/** Says whose an address and port are. */
export async function explainAddress(parts: DifferenceParts, asked: AskedAddress): Promise<AddressOwnerReply> {
  const { address, port, protocols } = asked;
  const ids =
    port === undefined
      ? plannedAt(address, protocols, parts.desired.plan)
      : protocols.map((protocol) => ({ address, port, protocol }));
  const found = await readFoundAddress(parts, ids);
  const { config, desired, kernel } = parts;
  return new Yielder().finish(addressReply(config.nodeName, asked, desired.plan, found, wordsOf(kernel.mode)));
}

/** Explains the way of a packet to an address, or to the cluster IP of a Service. */
export async function explainPacket(
  parts: DifferenceParts & PacketParts,
  cluster: Cluster,
  from: IpAddress,
  target: AskedAddress | NamespacedName,
): Promise<PacketReply | Problem> {
  const { config, desired } = parts;
  const asked = packetTarget(from, target, desired.plan, config);
  if ('problem' in asked) return asked;
  const found = await readFoundPacket(parts, asked);
  const node = desired.nodeView();
  const slices = (name: NamespacedName) => cluster.slices(name);
  return new Yielder().finish(packetReply({ asked, node, config, plan: desired.plan, slices, found }));
}
