import { formatHostPort } from '../../src/base/ip.ts';
import type { NftHook } from '../../src/netlink/family/nf-tables/chain.ts';
import { type Alternative, explore } from './explore.ts';
import type { Clients, Packet, Passage, Ruleset, Step, TracedNode, Verdict } from './ruleset.ts';

/** What becomes of the first packet of a connection. */
export interface End {
  /** `here`: it reaches a program of the node; `forwarded`: the node sends it on. Both with its own destination. */
  readonly verdict: 'translated' | 'here' | 'forwarded' | 'rejected' | 'dropped';
  /** Where it is translated to: "10.244.0.1:8080". */
  readonly endpoint?: string | undefined;
  readonly isMasqueraded: boolean;
  /** Whether a rule of table filter accepted it, so that a policy of DROP does not apply. */
  readonly isAccepted: boolean;
  /** For how many seconds the next connection of the client reaches the same endpoint; 0: it may reach another. */
  readonly affinity: number;
}

/** The possible ends of a packet. */
export type Fate = readonly Alternative<End>[];

/**
 * Traces a packet through rules. Every random choice is followed in each way. Each translated packet is followed by one of
 * another connection of the same client, which shows whether there is session affinity.
 */
export function trace(ruleset: Ruleset, packet: Packet, node: TracedNode): Fate {
  const first = explore((choose) => pass(ruleset, passageOf(packet, node, choose, new Map())));
  return merged(
    first.map(({ value: { clients, ...end }, probability }) => {
      const second =
        clients.size === 0 ? [] : explore((choose) => pass(ruleset, passageOf(packet, node, choose, clients)));
      return { value: { ...end, affinity: affinityOf(end.endpoint, second) }, probability };
    }),
  );
}

type Passed = Omit<End, 'affinity'> & { readonly clients: Clients; readonly foundFor: number | undefined };

function affinityOf(endpoint: string | undefined, second: readonly Alternative<Passed>[]): number {
  const times = second.map(({ value }) => (value.endpoint === endpoint ? (value.foundFor ?? 0) : 0));
  return endpoint === undefined || times.length === 0 ? 0 : Math.min(...times);
}

function merged(ends: Fate): Fate {
  const groups = Map.groupBy(ends, ({ value }) => endText(value));
  return Array.from(groups.values(), (group) => ({
    value: (group[0] as Alternative<End>).value,
    probability: group.reduce((sum, { probability }) => sum + probability, 0),
  }));
}

/** For example "translated to 10.244.0.1:8080, masqueraded, affinity 600s". */
export function endText({ verdict, endpoint, isMasqueraded, isAccepted, affinity }: End): string {
  return [
    endpoint === undefined ? verdict : `${verdict} to ${endpoint}`,
    ...(isMasqueraded ? ['masqueraded'] : []),
    ...(isAccepted ? ['accepted'] : []),
    ...(affinity > 0 ? [`affinity ${affinity}s`] : []),
  ].join(', ');
}

function passageOf(packet: Packet, node: TracedNode, choose: Passage['choose'], clients: Clients): Passage {
  return {
    ...packet,
    through: packet.through ?? '',
    mark: 0,
    isTranslated: false,
    isMasqueraded: false,
    affinity: undefined,
    clients: new Map(Array.from(clients, ([name, list]) => [name, new Map(list)])),
    node,
    choose,
  };
}

type Hook = NftHook['hook'];

/** Leads a packet through the hooks of netfilter. */
function pass(ruleset: Ruleset, passage: Passage): Passed {
  const isSentHere = passage.through === '';
  const way = new Way(ruleset, passage);
  let stopped = way.through(isSentHere ? 'output' : 'prerouting');
  const isForNode = passage.node.isLocal(passage.destination);
  const rest: readonly Hook[] = isForNode ? ['input'] : [...(isSentHere ? [] : ['forward' as const]), 'postrouting'];
  // What the node sends to itself leaves and arrives through the loopback interface.
  for (const hook of isForNode && isSentHere ? (['postrouting', 'prerouting', ...rest] as const) : rest) {
    if (hook === 'prerouting') passage.through = 'lo';
    stopped ??= way.through(hook);
  }
  const { isTranslated, isMasqueraded, clients } = passage;
  const endpoint = isTranslated ? formatHostPort(passage.destination, passage.port) : undefined;
  const untranslated = isForNode ? 'here' : 'forwarded';
  return stopped === undefined
    ? {
        verdict: isTranslated ? 'translated' : untranslated,
        endpoint,
        isMasqueraded,
        isAccepted: way.isAccepted,
        clients,
        foundFor: passage.affinity,
      }
    : { verdict: stopped, isMasqueraded: false, isAccepted: false, clients: new Map(), foundFor: undefined };
}

interface Base {
  readonly name: string;
  readonly type: NftHook['type'];
}

/** The base chains of each hook in the order of their priorities; found once for each ruleset. */
const bases = new WeakMap<Ruleset, ReadonlyMap<Hook, readonly Base[]>>();

function basesOf(ruleset: Ruleset, hook: Hook): readonly Base[] {
  const known = bases.get(ruleset) ?? findBases(ruleset);
  bases.set(ruleset, known);
  return known.get(hook) ?? [];
}

function findBases(ruleset: Ruleset): ReadonlyMap<Hook, readonly Base[]> {
  const found = Array.from(ruleset).flatMap(([name, { base }]) => (base === undefined ? [] : [{ name, ...base }]));
  return Map.groupBy(
    found.toSorted((a, b) => a.priority - b.priority),
    ({ hook }) => hook,
  );
}

/** What the nat chains of a hook translate. */
const TRANSLATES: Readonly<Partial<Record<Hook, 'destination' | 'source'>>> = {
  prerouting: 'destination',
  output: 'destination',
  input: 'source',
  postrouting: 'source',
};

/** More than any ruleset without a loop needs. */
const MAX_DEPTH = 16;

class Way {
  readonly #ruleset: Ruleset;
  readonly #passage: Passage;
  /** A connection is translated once: by the first hook of those for the destination, and of those for the source. */
  readonly #decided = new Set<'destination' | 'source'>();
  isAccepted = false;

  constructor(ruleset: Ruleset, passage: Passage) {
    this.#ruleset = ruleset;
    this.#passage = passage;
  }

  /** Returns what stops the packet at a hook. */
  through(hook: Hook): 'dropped' | 'rejected' | undefined {
    const translates = TRANSLATES[hook];
    for (const { name, type } of basesOf(this.#ruleset, hook)) {
      if (type === 'nat' && (translates === undefined || this.#decided.has(translates))) continue;
      const { kind } = this.#run(name, 0);
      if (kind === 'drop') return 'dropped';
      if (kind === 'reject') return 'rejected';
      if (type === 'filter' && kind === 'accept') this.isAccepted = true;
    }
    if (translates !== undefined) this.#decided.add(translates);
    return undefined;
  }

  #run(name: string, depth: number): Verdict {
    const chain = this.#ruleset.get(name);
    if (chain === undefined) throw new Error(`no chain ${name}`);
    if (depth > MAX_DEPTH) throw new Error(`chain ${name} leads to itself`);
    for (const { steps } of chain.rules) {
      const verdict = this.#apply(steps);
      if (verdict === undefined) continue;
      if (verdict.kind === 'goto') return this.#run(verdict.chain, depth + 1);
      if (verdict.kind !== 'jump') return verdict;
      const inner = this.#run(verdict.chain, depth + 1);
      if (inner.kind !== 'return') return inner;
    }
    return { kind: 'return' };
  }

  #apply(steps: readonly Step[]): Verdict | undefined {
    for (const step of steps) {
      const result = step(this.#passage);
      if (result === false) return undefined;
      if (result !== true) return result;
    }
    return undefined;
  }
}
