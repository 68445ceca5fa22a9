import type { OtherRules } from '../../state/rules/other-rules.ts';
import type { Packet } from './packet.ts';
import type { OtherRule } from '../replies.ts';
import { matchRule } from './rule-match.ts';

/** What a rule of another program does to the packet. */
type Effect = OtherRule['effect'];

const EFFECTS: Readonly<Record<string, Effect>> = {
  DROP: 'drops',
  REJECT: 'refuses',
  DNAT: 'redirects',
  REDIRECT: 'redirects',
  TPROXY: 'redirects',
  NFQUEUE: 'queues',
  QUEUE: 'queues',
  NOTRACK: 'does not track',
};

/** Effects after which no other rule sees the packet. */
const FINAL: ReadonlySet<Effect> = new Set<Effect>(['drops', 'refuses', 'redirects', 'queues']);

/** How a chain ends for the packet. `unknown`: no rule decides, or one that may not match. */
type End = 'decided' | 'accepted' | 'unknown';

export interface OtherWalk {
  readonly rules: readonly OtherRule[];
  /** Whether a rule that may match changes the mark, so that `packet.mark` is no longer known. */
  readonly marks: boolean;
}

/** Our chains, which are not walked, and those among them that accept the packet; each as "table chain". */
export interface OurChains {
  readonly chains: ReadonlySet<string>;
  readonly accepting: ReadonlySet<string>;
}

export type OtherStage = readonly [table: string, hook: string];

/**
 * Takes a packet through the rules of other programs. Not every match can be decided here. Returns the rules that
 * match or may match, and that stop or divert the packet, even those after our own decisions.
 *
 * @param marks whether the mark of the packet is unknown
 */
export function walkOtherRules(
  { tables }: Pick<OtherRules, 'tables'>,
  ours: OurChains,
  stages: readonly OtherStage[],
  packet: Packet,
  marks = false,
): OtherWalk {
  const walk = new Walk(tables, ours, packet, marks);
  for (const [table, hook] of stages) if (walk.enter(table, hook) === 'decided') break;
  return { rules: walk.found, marks: walk.marks };
}

class Walk {
  readonly found: OtherRule[] = [];
  marks: boolean;
  readonly #tables: OtherRules['tables'];
  readonly #ours: OurChains;
  #packet: Packet;
  #hook = '';
  /** How each chain of this hook ended. A chain is walked once if it is entered for certain, and once if it may be. */
  #ends = new Map<string, End>();

  constructor(tables: OtherRules['tables'], ours: OurChains, packet: Packet, marks: boolean) {
    this.#tables = tables;
    this.#ours = ours;
    this.#packet = packet;
    this.marks = marks;
  }

  enter(table: string, hook: string): End {
    this.#hook = hook;
    if (hook === 'OUTPUT' || hook === 'POSTROUTING') this.#packet = { ...this.#packet, inInterface: undefined };
    this.#ends = new Map();
    return this.#chain(table, hook, true);
  }

  #chain(table: string, name: string, certain: boolean): End {
    const key = `${name} ${certain}`;
    const known = this.#ends.get(key);
    if (known !== undefined) return known;
    // A chain that leads to itself is not possible; if it were, it would end here.
    this.#ends.set(key, 'unknown');
    const end = this.#rules(table, name, certain);
    this.#ends.set(key, end);
    return end;
  }

  #rules(table: string, chain: string, certain: boolean): End {
    for (const rule of this.#tables.get(table)?.get(chain) ?? []) {
      const match = matchRule(rule, this.marks ? { ...this.#packet, mark: undefined } : this.#packet);
      if (match === undefined) continue;
      const { target, options } = match;
      const isSure = certain && match.certain;
      const effect = target === 'CT' && options.includes('--notrack') ? 'does not track' : EFFECTS[target];
      if (effect !== undefined) {
        this.found.push({ hook: this.#hook, table, chain, rule: ruleText(rule), effect, matches: isSure });
        if (match.certain && FINAL.has(effect)) return certain ? 'decided' : 'unknown';
      } else if (target === 'MARK' || target === 'CONNMARK') {
        this.marks = true;
      } else if (target === 'ACCEPT' && match.certain) {
        return certain ? 'accepted' : 'unknown';
      } else if (target === 'RETURN' && match.certain) {
        return 'unknown';
      } else if (this.#ours.accepting.has(`${table} ${target}`)) {
        return certain ? 'accepted' : 'unknown';
      } else if (this.#tables.get(table)?.has(target) === true && !this.#ours.chains.has(`${table} ${target}`)) {
        const end = this.#chain(table, target, isSure);
        if (end !== 'unknown' || (match.isGoto && match.certain)) return end;
      }
    }
    return 'unknown';
  }
}

function ruleText(rule: readonly string[]): string {
  return rule.map((word) => (/^[^\s"]+$/.test(word) ? word : JSON.stringify(word))).join(' ');
}
