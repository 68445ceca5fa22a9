import { familyOf } from '../../base/ip.ts';
import { Yielder } from '../../base/yielder.ts';
import { bindingOf } from '../../diff/address-diff.ts';
import { type AskedPacket, type FoundPacket, MOST_ENDPOINTS } from '../../explain/packet/packet-reply.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { Op } from '../../state/op.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import type { ComparisonParts } from '../compare/comparison.ts';
import { compareServers } from '../compare/server-comparison.ts';
import { type NodeParts, differingShared, readForwarding } from '../node/node-difference.ts';

export type PacketParts = ComparisonParts & NodeParts;

/** Reads what the kernel has where a packet passes. */
export async function readFoundPacket(parts: PacketParts, asked: AskedPacket): Promise<FoundPacket> {
  const { kernel, config, desired, compareRules } = parts;
  const { from, address } = asked;
  const servers = desired.plan.virtualServer(virtualServerKey(asked))?.realServers ?? [];
  const endpoints = servers.slice(0, MOST_ENDPOINTS).map((server) => server.address);
  const { nodeIps } = desired.nodeView();
  const family = familyOf(address);
  const own = (await kernel.getNodeAddresses()).find(
    (each) => familyOf(each.address) === family && nodeIps.includes(each.address),
  );
  const rules = planRules(config, family);
  const { missing, packets } = await compareRules(rules);
  const ops = await differingOps(parts, asked);
  const commands = await differingShared(parts, new Set([family]));
  if (missing.length > 0 || ops.length > 0) {
    const preview = await kernel.preview([rules], [ops]);
    for (const { command } of [...preview.rules, ...preview.parts.flat()]) commands.push(command);
  }
  return {
    routes: await kernel.findRoutes([...new Set([from, address, ...endpoints])]),
    nodeInterface: own?.interfaceName,
    packets,
    commands,
    others: await kernel.getOtherRules(family),
    forwards: await readForwarding(kernel, family),
  };
}

/** Reads again if the virtual server or its address differs, because a sync may be writing them. */
async function differingOps(parts: PacketParts, asked: AskedPacket): Promise<readonly Op[]> {
  const ops = await opsOnce(parts, asked);
  return ops.length === 0 ? ops : opsOnce(parts, asked);
}

async function opsOnce(parts: PacketParts, asked: AskedPacket): Promise<readonly Op[]> {
  const { kernel, desired } = parts;
  const { address } = asked;
  const planned = desired.plan.virtualServer(virtualServerKey(asked));
  const ops = planned === undefined ? [] : await compareServers(parts, [planned], new Yielder());
  if (!desired.plan.wantsAddress(address)) return ops;
  const bound = await kernel.getBoundAddresses();
  const binding = bindingOf(
    address,
    bound.find((each) => each.address === address),
  );
  return binding === undefined ? ops : [...ops, binding];
}
