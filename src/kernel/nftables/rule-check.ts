import type { IpFamily } from '../../base/ip.ts';
import type { RuleSettings } from '../../state/rule-settings.ts';
import { type ChainPlan, baseChains } from './base-chains.ts';
import { firewallObjects } from './firewall-objects.ts';
import type { NftMessage } from './nft-message.ts';
import type { ElementOf, NftPort, ObservedChain } from './nft-port.ts';
import {
  type ServiceObjects,
  chooseChain,
  firstChain,
  readFirstChain,
  rejectingChain,
  serviceObjects,
} from './service-objects.ts';
import { AFFINITY_ENDPOINTS, FIREWALL_IPS, constantSets } from './sets.ts';
import { TableChange, rulesOf, stepsText } from './table-change.ts';
import { type Head, readEndpoints, readHeads, readRestricted } from './table-reader.ts';

/** How chains, rules and derived elements of a table differ from those that its other elements need. */
export interface RuleCheck {
  readonly messages: readonly NftMessage[];
  /** The chains that differ. */
  readonly chains: readonly string[];
  /** Correct chains of several virtual servers of which none is left: they may be deleted. */
  readonly unused: readonly string[];
}

/**
 * Compares all chains of a table with what they must be: those that never change, and those of virtual servers with
 * session affinity and of source ranges, which follow from elements of the table itself.
 */
export async function checkRules(port: NftPort, settings: RuleSettings, family: IpFamily): Promise<RuleCheck> {
  const observed = new Map((await port.chains(family)).map((chain) => [chain.name, chain]));
  const rules = Map.groupBy(await port.rules(family), ({ chain }) => chain);
  const heads = await readHeads(port, family);
  const derived = await derivedObjects(port, family, heads);
  const wanted = [
    ...baseChains(settings, family),
    ...[...observed.keys()].flatMap((name) => sharedChain(name, family) ?? []),
    ...derived.flatMap(({ chains }) => chains),
  ];
  const wrong = wanted.filter((chain) => {
    const found = observed.get(chain.name);
    return (
      found === undefined || !hasSameBase(chain, found) || rulesText(chain) !== textOf(rules.get(chain.name) ?? [])
    );
  });
  const names = new Set(wanted.map(({ name }) => name));
  const surplus = [...observed.keys()].filter((name) => !names.has(name));
  const sets = new Set((await port.sets(family)).map(({ name }) => name));
  const missing = [...constantSets(family), ...derived.flatMap((each) => each.sets)].filter(
    ({ name }) => !sets.has(name),
  );
  const elements = await elementChange(port, family, derived);
  const messages = [
    ...missing.map((set): NftMessage => ({ kind: 'new-set', set })),
    ...rewrite(wrong, observed),
    ...elements,
    ...deleteChains(surplus),
  ];
  const used = new Set(heads.map(({ id, count, affinity }) => firstChain(id, count, affinity)));
  const unused = [...observed.keys()].filter((name) => sharedChain(name, family) !== undefined && !used.has(name));
  return { messages, chains: [...wrong.map(({ name }) => name), ...surplus], unused };
}

/** Returns what deletes these chains. */
export function deleteChains(names: readonly string[]): readonly NftMessage[] {
  return [
    ...names.map((name): NftMessage => ({ kind: 'flush-chain', name })),
    ...names.map((name): NftMessage => ({ kind: 'delete-chain', name })),
  ];
}

/** Returns the objects whose chains and elements follow from other elements. */
async function derivedObjects(
  port: NftPort,
  family: IpFamily,
  heads: readonly Head[],
): Promise<readonly ServiceObjects[]> {
  const sticky = heads.filter(({ affinity }) => affinity > 0);
  const services = sticky.length === 0 ? [] : (await readEndpoints(port, family, sticky)).values();
  const restricted = [...(await readRestricted(port, family)).values()];
  return [
    ...Array.from(services, ({ id, state }) => serviceObjects(id, state)),
    ...restricted.filter(({ inForce }) => inForce).map(({ id, ranges }) => firewallObjects(id, ranges)),
  ];
}

/** Returns what a chain that several virtual servers use must contain; undefined for other chains. */
function sharedChain(name: string, family: IpFamily): ChainPlan | undefined {
  const target = readFirstChain(name);
  if (target === undefined) return undefined;
  if (target.count > 0) return target.affinity > 0 ? undefined : chooseChain(target.count, family);
  return target.affinity > 0 ? rejectingChain(target.affinity) : undefined;
}

function hasSameBase({ base }: ChainPlan, found: ObservedChain): boolean {
  if (base === undefined || found.base === undefined) return base === found.base;
  const { type, hook, priority } = found.base;
  return base.type === type && base.hook === hook && base.priority === priority && found.policy === ACCEPT;
}

/** linux/netfilter.h: NF_ACCEPT. */
const ACCEPT = 1;

function rulesText({ rules }: ChainPlan): string {
  return rules.map(stepsText).join('\n');
}

function textOf(rules: readonly { readonly expressions: readonly object[] }[]): string {
  return rules.map(({ expressions }) => stepsText(expressions)).join('\n');
}

function rewrite(chains: readonly ChainPlan[], observed: ReadonlyMap<string, ObservedChain>): readonly NftMessage[] {
  // A chain with another hook cannot be changed, but nothing refers to it.
  const replaced = chains.filter((chain) => {
    const found = observed.get(chain.name);
    return found !== undefined && !hasSameBase(chain, found);
  });
  const known = chains.filter((chain) => observed.has(chain.name) && !replaced.includes(chain));
  const created = chains.filter((chain) => !known.includes(chain));
  return [
    ...[...known, ...replaced].map(({ name }): NftMessage => ({ kind: 'flush-chain', name })),
    ...replaced.map(({ name }): NftMessage => ({ kind: 'delete-chain', name })),
    ...created.map(({ name, base }): NftMessage => ({
      kind: 'new-chain',
      chain: base === undefined ? { name } : { name, base },
    })),
    ...chains.flatMap(rulesOf),
  ];
}

/** Returns the changes of elements that other elements determine. */
async function elementChange(
  port: NftPort,
  family: IpFamily,
  derived: readonly ServiceObjects[],
): Promise<readonly NftMessage[]> {
  const change = new TableChange();
  const isDerived = (set: string): boolean => set === AFFINITY_ENDPOINTS || set === FIREWALL_IPS;
  const wanted = derived.flatMap(({ elements }) => elements.filter(({ set }) => isDerived(set)));
  const found: ElementOf[] = [];
  for (const set of [AFFINITY_ENDPOINTS, FIREWALL_IPS]) {
    await port.eachElement(family, set, (element) => found.push({ set, ...element }));
  }
  const plain = { shared: [], chains: [], sets: [] };
  change.replace({ elements: found, ...plain }, { elements: wanted, ...plain });
  return change.messages(new Set());
}
