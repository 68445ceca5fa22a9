import type { IpFamily } from '../../base/ip.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import type { CommandResult, CommandRunner } from '../command-runner.ts';
import { nftTable } from '../../state/nft-table.ts';
import { type ProxyTables, proxyTables } from '../nftables/proxy-tables.ts';
import { splitRule } from './iptables-rule.ts';
import type { SavedTables } from './iptables-script.ts';
import { type NamedVariant, type IptablesVariant, programName, savedByVariant, savedOf } from './iptables-variant.ts';
import { LOCK_SECONDS, restoreDeadlineMs } from './iptables-programs.ts';
import { KernelError } from '../kernel-error.ts';

/** Rules that kube-proxy left behind in another mode. */
export type Leftover =
  | {
      readonly kind: 'chains';
      readonly family: IpFamily;
      readonly variant: IptablesVariant;
      /** "table/chain", in the order of iptables-save. */
      readonly chains: readonly string[];
      /** Input for iptables-restore --noflush that removes the chains and every jump to them. */
      readonly script: string;
    }
  | { readonly kind: 'nft-table'; readonly family: IpFamily };

/**
 * Chains that kube-proxy creates in iptables mode since release 1.20 (pkg/proxy/iptables), without the kubelet's, and the one with
 * which this program tries what the kernel has.
 */
const IPTABLES_MODE =
  /^KUBE-((SVC|SVL|SEP|FW|XLB|EXT)-[A-Z0-9]{16}|NODEPORTS|EXTERNAL-SERVICES|PROXY-CANARY|EXTENSION-PROBE)$/;

/** Only iptables mode has this chain in table filter, to reject traffic to services without endpoints. */
const FILTER_SERVICES = 'filter/KUBE-SERVICES';

/** iptables mode jumps to KUBE-PROXY-FIREWALL conditionally, ipvs mode unconditionally. */
const CONDITIONAL_JUMP = /--ctstate NEW .*-j KUBE-PROXY-FIREWALL$/;

/** The tables of nftables mode. */
export type FoundTables = Pick<ProxyTables, 'find' | 'remove'>;

export interface LeftoverOptions {
  /** Those of nftables mode; default: those of this network namespace. */
  readonly tables?: FoundTables;
  /** Further chains that are leftovers, as "table/chain". */
  readonly chains?: ReadonlySet<string>;
  /** Where chains are looked for; default: in each variant that is installed. */
  readonly variants?: readonly NamedVariant[];
}

/** Finds and removes rules that kube-proxy left in iptables and nftables mode, in either variant of iptables. */
export class Leftovers {
  readonly #runner: CommandRunner;
  readonly #tables: FoundTables;
  readonly #chains: ReadonlySet<string>;
  readonly #variants: LeftoverOptions['variants'];

  constructor(runner: CommandRunner, { tables = proxyTables(), chains = new Set(), variants }: LeftoverOptions = {}) {
    this.#runner = runner;
    this.#tables = tables;
    this.#chains = chains;
    this.#variants = variants;
  }

  /** Changes nothing. Chains that ipvs mode has too are not leftovers, unless they are named: this program adopts them. */
  async find(): Promise<Leftover[]> {
    const found: Leftover[] = [];
    for (const family of IP_FAMILIES) {
      for (const [variant, saved] of await this.#saved(family)) {
        const chains = this.#chainsOf(saved);
        if (chains.length > 0) {
          found.push({ kind: 'chains', family, variant, chains, script: removalScript(saved, new Set(chains)) });
        }
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
    const program = programName(leftover.variant, leftover.family, 'restore');
    const { script } = leftover;
    const deadlineMs = restoreDeadlineMs(script);
    const result = await this.#runner.run(program, ['--noflush', `--wait=${LOCK_SECONDS}`], {
      stdin: script,
      deadlineMs,
    });
    if (result.status !== 0) throw failure(program, result);
  }

  async #saved(family: IpFamily): ReturnType<typeof savedByVariant> {
    return this.#variants === undefined
      ? await savedByVariant(this.#runner, family)
      : await savedOf(this.#runner, family, this.#variants);
  }

  /** Returns the chains that are left, as "table/chain". */
  #chainsOf(saved: SavedTables): string[] {
    return [...saved].flatMap(([table, chains]) =>
      Array.from(chains.keys(), (chain) => ({ chain, key: `${table}/${chain}` }))
        .filter(({ chain, key }) => IPTABLES_MODE.test(chain) || key === FILTER_SERVICES || this.#chains.has(key))
        .map(({ key }) => key),
    );
  }
}

/** Describes a leftover for the log, with the program that lists it. */
export function describeLeftover(leftover: Leftover): string {
  if (leftover.kind === 'nft-table') return `nftables table ${nftTable(leftover.family)}`;
  const { chains, variant, family } = leftover;
  const program = programName(variant, family, 'save');
  const shown = chains.slice(0, 5).join(', ');
  return `${chains.length} chains in ${program} (${shown}${chains.length > 5 ? ', ...' : ''})`;
}

function removalScript(saved: SavedTables, leftovers: ReadonlySet<string>): string {
  let text = '';
  for (const [table, chains] of saved) {
    const left = [...chains.keys()].filter((chain) => leftovers.has(`${table}/${chain}`));
    if (left.length === 0) continue;
    const targets = new Set(left);
    const jumps = [...chains].flatMap(([chain, rules]) =>
      targets.has(chain) ? [] : rules.filter((rule) => jumpsTo(rule, targets)).map((rule) => `-D ${chain} ${rule}`),
    );
    // Declaring a chain flushes it. Then none of them refers to another, and all can be deleted.
    const lines = [...left.map((chain) => `:${chain} - [0:0]`), ...jumps, ...left.map((chain) => `-X ${chain}`)];
    text += `*${table}\n${lines.join('\n')}\nCOMMIT\n`;
  }
  return text;
}

function jumpsTo(rule: string, targets: ReadonlySet<string>): boolean {
  if (CONDITIONAL_JUMP.test(rule)) return true;
  const words = splitRule(rule);
  const at = words.findIndex((word) => word === '-j' || word === '-g');
  return at >= 0 && targets.has(words[at + 1] ?? '');
}

function failure(program: string, { status, stderr }: CommandResult): KernelError {
  return new KernelError('leftovers', 'IPTABLES', `${program} failed with status ${status}: ${stderr.trim()}`);
}
