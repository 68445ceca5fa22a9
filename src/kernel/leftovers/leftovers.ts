import type { IpFamily } from '../../base/ip.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import type { CommandRunner } from '../command-runner.ts';
import { nftTable } from '../../state/nft-table.ts';
import { type FoundTables, proxyTablesHere } from './proxy-tables-here.ts';
import type { SavedTables } from '../iptables/iptables-save.ts';
import { deletionLines, tableScript } from '../iptables/iptables-script.ts';
import { type FoundJump, jumpsTo } from '../iptables/jumps.ts';
import { canonical } from '../iptables/same-rules.ts';
import {
  type IptablesVariant,
  type NamedVariant,
  type OnUnprinted,
  programName,
  savedByVariant,
  savedOf,
  unprintedFailure,
} from '../iptables/iptables-variant.ts';
import { IptablesPrograms } from '../iptables/iptables-programs.ts';

/** Rules that kube-proxy left behind in another mode. */
export type Leftover =
  | {
      readonly kind: 'chains';
      readonly family: IpFamily;
      readonly variant: IptablesVariant;
      /** "table/chain", in the order of iptables-save. */
      readonly chains: readonly string[];
      /**
       * Input for iptables-restore --noflush that removes the chains and kube-proxy's jumps to them. A chain that rules of
       * other programs jump to is emptied, unless it only marks packets.
       */
      readonly script: string;
    }
  | { readonly kind: 'nft-table'; readonly family: IpFamily }
  /** Chains of a table of iptables-nft that iptables-save cannot print: they can only be named. */
  | {
      readonly kind: 'unprinted';
      readonly family: IpFamily;
      readonly program: string;
      readonly table: string;
      readonly chains: readonly string[];
    };

/**
 * Chains that kube-proxy creates in iptables mode since release 1.20 (pkg/proxy/iptables), without the kubelet's, and the one with
 * which this program tries what the kernel has.
 */
const IPTABLES_MODE =
  /^KUBE-((SVC|SVL|SEP|FW|XLB|EXT)-[A-Z0-9]{16}|NODEPORTS|EXTERNAL-SERVICES|PROXY-CANARY|EXTENSION-PROBE)$/;

/** Only iptables mode has this chain in table filter, to reject traffic to services without endpoints. */
const FILTER_SERVICES = 'filter/KUBE-SERVICES';

const FIREWALL = 'KUBE-PROXY-FIREWALL';
/** iptables mode jumps to it conditionally, ipvs mode unconditionally. */
const CONDITIONAL_JUMP = /--ctstate NEW .*-j KUBE-PROXY-FIREWALL$/;

const BUILT_IN: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** The clauses of kube-proxy's jumps from built-in chains. */
const CLAUSE_OF_BUILT_IN = /^(-m comment |-m conntrack --ctstate NEW$|-[jg] )/;

export interface LeftoverOptions {
  /** The tables of nftables mode; default: those of this network namespace. */
  readonly tables?: FoundTables;
  /** Further chains that are leftovers, as "table/chain". */
  readonly chains?: ReadonlySet<string>;
  /** The variants whose chains are searched; default: all that are installed. */
  readonly variants?: readonly NamedVariant[];
}

/** Finds and removes rules that kube-proxy left in iptables and nftables mode, in either variant of iptables. */
export class Leftovers {
  readonly #runner: CommandRunner;
  readonly #tables: FoundTables;
  readonly #chains: ReadonlySet<string>;
  readonly #variants: LeftoverOptions['variants'];

  constructor(
    runner: CommandRunner,
    { tables = proxyTablesHere(), chains = new Set(), variants }: LeftoverOptions = {},
  ) {
    this.#runner = runner;
    this.#tables = tables;
    this.#chains = chains;
    this.#variants = variants;
  }

  /** Changes nothing. Chains that ipvs mode has too are not leftovers, unless they are named: this program adopts them. */
  async find(): Promise<Leftover[]> {
    const found: Leftover[] = [];
    for (const family of IP_FAMILIES) {
      const unprinted: (readonly [program: string, table: string])[] = [];
      const noteUnprinted = (program: string, tables: readonly string[]): void => {
        for (const table of tables) unprinted.push([program, table]);
      };
      for (const [variant, saved] of await this.#saved(family, noteUnprinted)) {
        const { chains, script } = removal(saved, (key, chain) => this.#isLeft(key, chain));
        if (chains.length > 0) found.push({ kind: 'chains', family, variant, chains, script });
      }
      for (const [program, table] of unprinted) {
        const names = await this.#tables.chainsOf(family, table);
        const left = names.filter((chain) => this.#isLeft(`${table}/${chain}`, chain));
        const chains = left.map((chain) => `${table}/${chain}`);
        if (chains.length > 0) found.push({ kind: 'unprinted', family, program, table, chains });
      }
    }
    const tables = (await this.#tables.find()).map((family): Leftover => ({ kind: 'nft-table', family }));
    return [...found, ...tables];
  }

  async remove(leftover: Leftover): Promise<void> {
    if (leftover.kind === 'nft-table') {
      await this.#tables.remove(leftover.family);
      return;
    }
    if (leftover.kind === 'unprinted') throw unprintedFailure(leftover.program, leftover.family, [leftover.table]);
    await new IptablesPrograms(this.#runner).restore(leftover.variant, leftover.family, leftover.script);
  }

  async #saved(family: IpFamily, onUnprinted: OnUnprinted): ReturnType<typeof savedByVariant> {
    return this.#variants === undefined
      ? await savedByVariant(this.#runner, family, onUnprinted)
      : await savedOf(this.#runner, family, this.#variants, onUnprinted);
  }

  #isLeft(key: string, chain: string): boolean {
    return IPTABLES_MODE.test(chain) || key === FILTER_SERVICES || this.#chains.has(key);
  }
}

/** Describes a leftover for the log, with the program that lists it. */
export function describeLeftover(leftover: Leftover): string {
  if (leftover.kind === 'nft-table') return `nftables table ${nftTable(leftover.family)}`;
  const { chains, family } = leftover;
  const program = leftover.kind === 'unprinted' ? leftover.program : programName(leftover.variant, family, 'save');
  const shown = chains.slice(0, 5).join(', ');
  return `${chains.length} chains in ${program} (${shown}${chains.length > 5 ? ', ...' : ''})`;
}

/** Returns the leftover chains, and the script that removes them. An empty chain that must stay does not count. */
function removal(
  saved: SavedTables,
  isLeft: (key: string, chain: string) => boolean,
): Pick<Leftover & { readonly kind: 'chains' }, 'chains' | 'script'> {
  const found: string[] = [];
  let script = '';
  for (const [table, chains] of saved) {
    const left = new Set([...chains.keys()].filter((chain) => isLeft(`${table}/${chain}`, chain)));
    if (left.size === 0) continue;
    const jumps = jumpsTo(new Set([...left, FIREWALL]), chains, (chain) => left.has(chain)).filter(
      ({ to, rule }) => left.has(to) || CONDITIONAL_JUMP.test(rule),
    );
    const { going = [], staying = [] } = Object.groupBy(jumps, (jump) => (isOfKubeProxy(jump) ? 'going' : 'staying'));
    const inUse = new Set(staying.map(({ to }) => to));
    const reached = new Set(going.map(({ to }) => to));
    const lasting = (chain: string): boolean =>
      inUse.has(chain) && (isMarking(chains.get(chain)) || (!reached.has(chain) && chains.get(chain)?.length === 0));
    const changed = [...left].filter((chain) => !lasting(chain));
    if (changed.length === 0) continue;
    for (const chain of changed) found.push(`${table}/${chain}`);
    script += tableScript(
      table,
      deletionLines(changed, (chain) => inUse.has(chain), going),
    );
  }
  return { chains: found, script };
}

/** Whether a chain only marks packets. In nftables mode, those with kube-proxy's mark are masqueraded, too. */
function isMarking(rules: readonly string[] | undefined): boolean {
  return rules !== undefined && rules.length > 0 && rules.every((rule) => rule.startsWith('-j MARK --'));
}

/** Jumps of other programs stay. */
function isOfKubeProxy({ from, rule }: FoundJump): boolean {
  if (!BUILT_IN.has(from)) return from.startsWith('KUBE-');
  const clauses = canonical(rule).split(' | ');
  return clauses.every((clause) => CLAUSE_OF_BUILT_IN.test(clause));
}
