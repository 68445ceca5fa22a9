import { type IpAddress, type IpFamily, isIp4, isLoopback } from '../../base/ip.ts';
import type { IpSet, IpSetEntry } from '../../state/ip-set.ts';
import { unlimitedSet } from '../../state/set-roles.ts';
import { LOCALNET_RULE, healthCheckRule, nodePortAddressRule } from './render/node-chains.ts';
import type { SharedRule } from './render/service-port.ts';

/** The sets whose entries are rules of the node, which belong to no Service port, by name. */
export const NODE_SETS: Readonly<Record<IpFamily, ReadonlyMap<string, IpSet>>> = { 4: setsOf(4), 6: setsOf(6) };

function setsOf(family: IpFamily): ReadonlyMap<string, IpSet> {
  const sets = (['NODE-PORT-IP', 'HEALTH-CHECK-NODE-PORT'] as const).map((role) => unlimitedSet(role, family));
  return new Map(sets.map((set) => [set.name, set]));
}

/** Returns the rule that stands for the entry in this mode; none for other types of entries. */
export function ruleOfEntry(entry: IpSetEntry): readonly SharedRule[] {
  if (entry.type === 'hash:ip') {
    return [nodePortAddressRule(entry.address)];
  }
  return entry.type === 'bitmap:port' ? [healthCheckRule(entry.port)] : [];
}

/** Returns the one rule that guards all loopback addresses; none if no IPv4 loopback address is among these. */
export function localnetRules(addresses: readonly IpAddress[]): readonly SharedRule[] {
  return addresses.some(isLocalnet) ? [LOCALNET_RULE] : [];
}

/** Whether the address of the entry is guarded by the rule of localnetRules. */
export function needsLocalnetRule(entry: IpSetEntry): boolean {
  return entry.type === 'hash:ip' && isLocalnet(entry.address);
}

function isLocalnet(address: IpAddress): boolean {
  return isIp4(address) && isLoopback(address);
}
