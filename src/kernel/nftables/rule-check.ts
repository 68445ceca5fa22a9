import type { IpFamily } from '../../base/ip.ts';
import { boundedParts } from '../../base/bounded-parts.ts';
import { Yielder } from '../../base/yielder.ts';
import type { ObservedRule } from '../../netlink/family/nf-tables/rule.ts';
import { type VirtualServerId, borrows } from '../../state/virtual-server.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import { NFT_VERDICT } from '../../netlink/family/nf-tables/data.ts';
import { isAffinityChain } from './objects/affinity-chains.ts';
import { type ChainPlan, baseChains, newChain, rulesOf } from './objects/base-chains.ts';
import { firewallByName, isFirewallChain } from './objects/firewall-objects.ts';
import { serviceKey } from './objects/keys.ts';
import { MOST_ELEMENTS, type NftMessage, type SetDefinition } from './port/nft-message.ts';
import type { ElementOf, NftPort, ObservedChain } from './port/nft-port.ts';
import { sameRules } from './port/same-expressions.ts';
import { type Deletion, type SharedChain, deleteChain } from './objects/shared-chain.ts';
import { type ServiceObjects, chooseChain, readFirstChain, serviceParts } from './objects/service-objects.ts';
import { FIREWALL_IPS, LISTS, SERVICE_IPS, constantSets, isOfSharedChain } from './objects/sets.ts';
import { type ListTargets, isListChain, listChain, listChainName, readLists } from './objects/shared-list.ts';
import { inOrderOfDeletion } from './surplus-removal.ts';
import { TableChange, elementId } from './table-change.ts';
import { HEADS, type Head, readEndpoints, readHeads } from './table-reader.ts';

/** How chains, rules and derived elements of a table differ from those that its other elements need. */
export interface RuleCheck {
  /**
   * Transactions in order, none of them empty, which make everything as it must be, and empty the chains that nothing
   * needs. New chains to which virtual servers or source ranges move come first, as in TableChange.transactions(). The last
   * one makes a dormant table count again, once everything in it is right.
   */
  readonly repairs: readonly (readonly NftMessage[])[];
  /** The chains that the repairs write. */
  readonly chains: readonly string[];
  /** Chains that are not wanted. They can be deleted after the repairs. */
  readonly surplus: readonly Deletion[];
  /** Chains that virtual servers shared of which none is left, and their sets: to be deleted after those. */
  readonly leftovers: readonly Deletion[];
}

/** A check deletes no more sets, because the kernel goes through all sets before it to find each. */
const MOST_SETS = 1_000;

/**
 * Compares all chains of a table with what they must be: those that never change, those whose names tell what they are, and
 * those of virtual servers with session affinity, which follow from elements of the table itself.
 */
export async function checkRules(port: NftPort, settings: RuleSettings, family: IpFamily): Promise<RuleCheck> {
  const { observed, rules, wanted, lists, heads, derived, damaged, shared, strays } = await readChains(
    port,
    family,
    settings,
  );
  const wrong: ChainPlan[] = [];
  const yielder = new Yielder();
  for (const chain of wanted.values()) {
    const found = observed.get(chain.name);
    if (found === undefined || !hasSameBase(chain, found) || !hasSameRules(chain, rules)) wrong.push(chain);
    if (yielder.due) await yielder.yieldIfDue();
  }
  const used = new Set([...heads, ...lists.values()].map(({ chain }) => chain));
  for (const { id, chain } of lists.values()) {
    // A check before this has deleted its chain, because nothing led there.
    if (observed.has(listChainName(id))) continue;
    strays.push({ set: LISTS, key: serviceKey(id), data: { verdict: { code: NFT_VERDICT.goto, chain } } });
  }
  const others = [...observed.keys()].filter((name) => !wanted.has(name));
  const surplusChains = others.filter((name) => !isAffinityChain(name) && !isFirewallChain(name) && !isListChain(name));
  const filled = surplusChains.filter((name) => rules.has(name));
  const sets = new Set((await port.sets(family)).map(({ name }) => name));
  const firewalls = await firewallsInUse(port, family);
  const ofChains = [...shared.values(), ...firewalls.flatMap((name) => namedChain(name, family) ?? [])];
  const wantedSets = new Map(
    [...constantSets(family), ...ofChains.flatMap((each) => each.sets)].map((set) => [set.name, set]),
  );
  const missing = [...wantedSets.values()].filter(({ name }) => !sets.has(name));
  strays.push(...(await findCatchAll(port, family)));
  const elements = await elementChange(port, family, { derived, shared: [...shared.values()], strays }, sets);
  const waking: readonly NftMessage[] = (await port.isDormant(family)) ? [{ kind: 'new-table' }] : [];
  const repairs = [...repairsOf({ filled, missing, wrong, elements, shared, observed }), waking];
  const unwanted = [...sets].filter((name) => !wantedSets.has(name));
  const surplus = surplusChains.map(deleteChain);
  for (const name of firewalls) used.add(name);
  const isOfServers = (name: string): boolean => isFirewallChain(name) || isAffinityChain(name);
  // What belongs to a damaged virtual server is in use until its endpoints are written again.
  const ofShared = damaged ? [] : others.filter((name) => isOfServers(name) && !used.has(name));
  const surplusSets = damaged ? [] : unwanted.filter(isOfSharedChain);
  const isLasting = (name: string): boolean => isListChain(name) || namedChain(name, family) !== undefined;
  const lasting = [...observed.keys()].filter((name) => isLasting(name) && !used.has(name));
  const leftovers = inOrderOfDeletion([...lasting, ...ofShared], surplusSets, MOST_SETS);
  return {
    repairs: repairs.filter(({ length }) => length > 0),
    chains: [...wrong.map(({ name }) => name), ...filled],
    surplus,
    leftovers,
  };
}

interface FoundChains extends Derived {
  readonly observed: ReadonlyMap<string, ObservedChain>;
  readonly rules: ReadonlyMap<string, readonly ObservedRule[]>;
  /** What they must be. Those that virtual servers share are among them. */
  readonly wanted: ReadonlyMap<string, ChainPlan>;
  readonly shared: ReadonlyMap<string, SharedChain>;
  readonly lists: ListTargets;
  readonly heads: readonly Head[];
  /** Elements of the maps of virtual servers and of lists that nobody can have. */
  readonly strays: ElementOf[];
}

/** Reads all chains of a table, and from what they follow. Without `settings`, those that never change are not wanted. */
export async function readChains(port: NftPort, family: IpFamily, settings?: RuleSettings): Promise<FoundChains> {
  const observed = new Map((await port.chains(family)).map((chain) => [chain.name, chain]));
  const rules = Map.groupBy(await port.rules(family), ({ chain }) => chain);
  const strays: ElementOf[] = [];
  const lists = await readLists(port, family, (element) => strays.push(element));
  const heads = await readHeads(port, family, (element) => strays.push(element), lists);
  const { derived, damaged } = await derivedObjects(port, family, heads);
  const shared = sharedByName(derived);
  const plans: readonly ChainPlan[] = [
    ...(settings === undefined ? [] : baseChains(settings, family)),
    ...[...observed.keys()].flatMap((name) => namedChain(name, family)?.chain ?? []),
    ...[...lists.values()].flatMap(({ id, chain }) => chainOfList(id, chain, observed) ?? []),
    ...Array.from(shared.values(), ({ chain }) => chain),
  ];
  const wanted = new Map(plans.map((chain) => [chain.name, chain]));
  return { observed, rules, wanted, lists, heads, derived, damaged, shared, strays };
}

function flushChains(names: readonly string[]): readonly NftMessage[] {
  return names.map((name): NftMessage => ({ kind: 'flush-chain', name }));
}

function sharedByName(derived: readonly ServiceObjects[]): ReadonlyMap<string, SharedChain> {
  const found = new Map<string, SharedChain>();
  for (const { shared } of derived) {
    if (shared === undefined || found.has(shared.name)) continue;
    for (const each of shared.chains()) found.set(each.chain.name, each);
  }
  return found;
}

interface Derived {
  readonly derived: readonly ServiceObjects[];
  /** Whether those of some virtual servers are not known, because another program changed their elements. */
  readonly damaged: boolean;
}

/** Returns the objects whose chains and elements follow from other elements. */
async function derivedObjects(port: NftPort, family: IpFamily, heads: readonly Head[]): Promise<Derived> {
  const sticky = heads.filter((head) => head.affinity > 0 && !borrows(head.id, head));
  const services = sticky.length === 0 ? [] : [...(await readEndpoints(port, family, sticky)).values()];
  const whole = services.filter(({ damaged }) => !damaged);
  return {
    derived: whole.flatMap(({ id, state }) => {
      const { service, list } = serviceParts(id, state);
      return list === undefined ? [service] : [list, service];
    }),
    damaged: whole.length < services.length || heads.some(({ misled }) => misled),
  };
}

/** Returns a chain that several virtual servers use, if its name tells what it must contain; undefined for other chains. */
function namedChain(name: string, family: IpFamily): SharedChain | undefined {
  const target = readFirstChain(name);
  if (target === undefined) return firewallByName(name, family)?.chains()[0];
  if (target.count === 0 || target.affinity > 0) return undefined;
  return { chain: chooseChain(target.count, family), sets: [], elements: [] };
}

/** Returns the chains that check source ranges. */
async function firewallsInUse(port: NftPort, family: IpFamily): Promise<readonly string[]> {
  const chains = new Set<string>();
  await port.eachElement(family, FIREWALL_IPS, ({ data }) => {
    if (data !== undefined && 'verdict' in data) chains.add(data.verdict.chain ?? '');
  });
  return [...chains];
}

/** Returns what the chain of a shared list must contain, if it exists. */
function chainOfList(
  id: VirtualServerId,
  target: string,
  observed: ReadonlyMap<string, ObservedChain>,
): ChainPlan | undefined {
  const first = observed.has(listChainName(id)) ? readFirstChain(target) : undefined;
  return first === undefined || first.count === 0 ? undefined : listChain(id, { name: target, ...first });
}

function hasSameBase({ base }: ChainPlan, found: ObservedChain): boolean {
  if (base === undefined || found.base === undefined) return base === found.base;
  const { type, hook, priority } = found.base;
  return base.type === type && base.hook === hook && base.priority === priority && found.policy === ACCEPT;
}

/** linux/netfilter.h: NF_ACCEPT. */
const ACCEPT = 1;

function hasSameRules({ name, rules }: ChainPlan, observed: ReadonlyMap<string, readonly ObservedRule[]>): boolean {
  const found = observed.get(name) ?? [];
  return sameRules(
    rules.map(({ expressions }) => expressions),
    found.map(({ expressions }) => expressions),
  );
}

interface Repairs {
  /** Chains with rules that nothing needs. */
  readonly filled: readonly string[];
  readonly missing: readonly SetDefinition[];
  readonly wrong: readonly ChainPlan[];
  readonly elements: readonly NftMessage[];
  readonly shared: ReadonlyMap<string, SharedChain>;
  readonly observed: ReadonlyMap<string, ObservedChain>;
}

/**
 * Returns the repairs as transactions: several if something moves to a new chain, or if they are too large. All chains
 * without a hook that are missing come first then, because one may lead to another, and the rules of each other chain are
 * written together. If the kernel has a chain with another hook, it can only be replaced together with the rules that lead
 * to it, so there is one transaction.
 */
function repairsOf({ filled, missing, wrong, elements, shared, observed }: Repairs): RuleCheck['repairs'] {
  const created = new Set(wrong.filter(({ name, base }) => base === undefined && !observed.has(name)));
  const moves = [...created].some(({ name }) => shared.has(name));
  const sets = missing.map((set): NftMessage => ({ kind: 'new-set', set }));
  const whole = [...flushChains(filled), ...sets, ...rewrite(wrong, observed), ...elements];
  const isSmall = !moves && sizeOf(whole) <= MOST_ELEMENTS;
  if (isSmall || wrong.some((chain) => isReplaced(chain, observed))) return [whole];
  const own = new Set(missing.flatMap(({ name }) => (isOfSharedChain(name) ? [name] : [])));
  const isOwn = (message: NftMessage): boolean => message.kind === 'new-elements' && own.has(message.set);
  const others = wrong.filter((chain) => !created.has(chain));
  return [
    // Nothing leads to these yet.
    ...inParts([...sets, ...rewrite([...created], observed), ...elements.filter(isOwn)].map((message) => [message])),
    ...inParts([
      ...flushChains(filled).map((message) => [message]),
      ...others.map((chain) => rewrite([chain], observed)),
      elements.filter((message) => !isOwn(message)),
    ]),
  ];
}

/** Divides messages, of which those of a group belong together, into transactions of limited size. */
function inParts(groups: readonly (readonly NftMessage[])[]): RuleCheck['repairs'] {
  return Array.from(boundedParts(groups, sizeOf, MOST_ELEMENTS), (part) => part.flat());
}

function sizeOf(messages: readonly NftMessage[]): number {
  return messages.reduce((sum, message) => sum + ('elements' in message ? message.elements.size : 1), 0);
}

/** A chain with another hook cannot be changed, but nothing refers to it. */
function isReplaced(chain: ChainPlan, observed: ReadonlyMap<string, ObservedChain>): boolean {
  const found = observed.get(chain.name);
  return found !== undefined && !hasSameBase(chain, found);
}

function rewrite(chains: readonly ChainPlan[], observed: ReadonlyMap<string, ObservedChain>): readonly NftMessage[] {
  const replaced = chains.filter((chain) => isReplaced(chain, observed));
  const known = chains.filter((chain) => observed.has(chain.name) && !isReplaced(chain, observed));
  const created = chains.filter((chain) => !observed.has(chain.name) || isReplaced(chain, observed));
  return [
    ...[...known, ...replaced].map(({ name }): NftMessage => ({ kind: 'flush-chain', name })),
    ...replaced.map(({ name }): NftMessage => ({ kind: 'delete-chain', name })),
    ...created.map(newChain),
    ...chains.flatMap(rulesOf),
  ];
}

/** Returns the elements that the kernel finds for all other keys. Those of maps that are read whole are left out. */
async function findCatchAll(port: NftPort, family: IpFamily): Promise<readonly ElementOf[]> {
  const read = new Set([...HEADS, LISTS]);
  const names = constantSets(family).flatMap(({ name }) => (read.has(name) ? [] : [name]));
  const { elements } = await port.lookUp(family, { elements: names.map((set) => ({ set, key: new Uint8Array() })) });
  return elements;
}

/** What elements there must be, and must not be. */
interface Determined {
  readonly derived: readonly ServiceObjects[];
  readonly shared: readonly SharedChain[];
  /** Elements to be deleted. */
  readonly strays: readonly ElementOf[];
}

/** The verdict maps in which those with session affinity are derived. */
const OF_SERVICES: ReadonlySet<string> = new Set([SERVICE_IPS, LISTS]);

/** Returns the changes of elements that other elements determine, and the deletion of strays. */
async function elementChange(
  port: NftPort,
  family: IpFamily,
  { derived, shared, strays }: Determined,
  present: ReadonlySet<string>,
): Promise<readonly NftMessage[]> {
  const change = new TableChange();
  for (const element of strays) change.deleteElement(element.set, element);
  const verdicts = derived.flatMap(({ elements }) => elements.filter(({ set }) => OF_SERVICES.has(set)));
  const ids = new Set(verdicts.map(elementId));
  const wanted = [...verdicts, ...shared.flatMap(({ elements }) => elements)];
  const found: ElementOf[] = [];
  for (const set of new Set(wanted.map((element) => element.set))) {
    if (!present.has(set)) continue;
    await port.eachElement(family, set, (element) => {
      // Most virtual servers are not derived.
      if (!OF_SERVICES.has(set) || ids.has(elementId({ set, key: element.key }))) found.push({ set, ...element });
    });
  }
  change.replace({ elements: found }, { elements: wanted });
  return change.elements;
}
