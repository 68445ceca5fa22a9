import type { NftHook } from '../../src/netlink/family/nf-tables/chain.ts';
import { parseSave } from '../../src/kernel/iptables/iptables-save.ts';
import { splitRule } from '../../src/kernel/iptables/iptables-rule.ts';
import { compileMatch } from './iptables-match.ts';
import { Options } from './iptables-options.ts';
import { compileTarget } from './iptables-target.ts';
import type { Ruleset, Step, TracedChain } from './ruleset.ts';

/** linux/netfilter_ipv4.h: enum nf_ip_hook_priorities. */
const HOOKS: Readonly<Record<string, Readonly<Record<string, NftHook>>>> = {
  nat: {
    PREROUTING: { type: 'nat', hook: 'prerouting', priority: -100 },
    INPUT: { type: 'nat', hook: 'input', priority: 100 },
    OUTPUT: { type: 'nat', hook: 'output', priority: -100 },
    POSTROUTING: { type: 'nat', hook: 'postrouting', priority: 100 },
  },
  filter: {
    INPUT: { type: 'filter', hook: 'input', priority: 0 },
    FORWARD: { type: 'filter', hook: 'forward', priority: 0 },
    OUTPUT: { type: 'filter', hook: 'output', priority: 0 },
  },
};

/** Compiles the output of iptables-save. Other tables than nat and filter may have no rules. Throws on what it does not know. */
export function rulesetOfIptables(text: string): Ruleset {
  const chains = new Map<string, TracedChain>();
  for (const [table, named] of parseSave(text)) {
    for (const [name, rules] of named) {
      if (HOOKS[table] === undefined && rules.length > 0) throw new Error(`no tracing of table ${table}`);
      chains.set(chainName(table, name), {
        base: HOOKS[table]?.[name],
        rules: rules.map((rule) => ({ text: rule, steps: compileRule(table, rule) })),
      });
    }
  }
  return chains;
}

function chainName(table: string, name: string): string {
  return `${table} ${name}`;
}

function compileRule(table: string, rule: string): readonly Step[] {
  try {
    return compileWords(table, splitRule(rule));
  } catch (error) {
    throw new Error(`rule "${rule}": ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** The matches of the headers come first, as the kernel has them. */
function compileWords(table: string, words: readonly string[]): readonly Step[] {
  const { headers, matches, target } = readParts(words);
  const steps = [headers, ...matches].flatMap((options) => {
    const compiled = compileMatch(options);
    options.expectNoMore();
    return compiled;
  });
  if (target === undefined) return steps;
  const last = compileTarget(target, (name) => chainName(table, name));
  target.expectNoMore();
  return [...steps, last];
}

const HEADERS: ReadonlySet<string> = new Set(['-s', '-d', '-i', '-p']);

interface Parts {
  readonly headers: Options;
  readonly matches: readonly Options[];
  readonly target?: Options | undefined;
}

/** Assigns each option to the header, the match ("-m") or the target ("-j") to which it belongs. */
function readParts(words: readonly string[]): Parts {
  const headers = new Options('header');
  const matches: Options[] = [];
  let target: Options | undefined;
  let isNegated = false;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '!') {
      isNegated = true;
      continue;
    }
    const value = hasValue(words, at) ? words[(at += 1)] : undefined;
    if (word === '-m') matches.push(new Options(value ?? ''));
    else if (word === '-j') target = new Options(value ?? '');
    else if (HEADERS.has(word)) headers.add(word, value, isNegated);
    else (target ?? matches.at(-1) ?? headers).add(word, value, isNegated);
    isNegated = false;
  }
  return { headers, matches, target };
}

function hasValue(words: readonly string[], at: number): boolean {
  const next = words[at + 1];
  return next !== undefined && next !== '!' && !next.startsWith('-');
}
