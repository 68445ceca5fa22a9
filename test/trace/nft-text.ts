import type { NftHook } from '../../src/netlink/family/nf-tables/chain.ts';
import { type NamedSet, compileRule, readKey, readVerdict } from './nft-rule.ts';
import type { Ruleset, TracedRule } from './ruleset.ts';
import { Words } from './words.ts';

interface Chain {
  readonly base?: NftHook | undefined;
  readonly rules: TracedRule[];
}

/** Compiles the lines that knftables dumps: one table as "add" commands of nft. Throws on what it does not know. */
export function rulesetOfNft(text: string): Ruleset {
  const chains = new Map<string, Chain>();
  const sets = new Map<string, NamedSet>();
  for (const line of text.split('\n').filter((each) => each !== '')) {
    try {
      readLine(line, chains, sets);
    } catch (error) {
      throw new Error(`line "${line}": ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  return chains;
}

/** All sets are before the rules that refer to them. */
function readLine(line: string, chains: Map<string, Chain>, sets: Map<string, NamedSet>): void {
  const words = new Words(line);
  words.expect('add');
  const kind = words.next();
  const family = words.next();
  if (family !== 'ip' && family !== 'ip6') throw new Error(`family ${family}`);
  words.next();
  if (kind === 'table' || kind === 'counter') return;
  const name = words.next();
  switch (kind) {
    case 'chain':
      chains.set(name, { base: readBase(words), rules: [] });
      break;
    case 'set':
    case 'map':
      sets.set(name, { ...readSetOptions(words), elements: new Map() });
      break;
    case 'rule':
      found(chains, name).rules.push({ text: line, steps: compileRule(words, (set) => found(sets, set)) });
      break;
    case 'element':
      readElement(words, found(sets, name));
      break;
    default:
      throw new Error(`unknown object ${kind}`);
  }
}

function found<T>(map: ReadonlyMap<string, T>, name: string): T {
  const value = map.get(name);
  if (value === undefined) throw new Error(`${name} is not defined`);
  return value;
}

/** Priorities by name (nftables: nft(8), "Standard priority names"). */
const PRIORITY: Readonly<Record<string, number>> = { dstnat: -100, filter: 0, srcnat: 100 };

function readBase(words: Words): NftHook | undefined {
  if (!words.accept('{')) return undefined;
  let base: NftHook | undefined;
  while (!words.accept('}')) {
    if (words.accept('type')) base = readHook(words);
    else if (words.accept('comment')) words.next();
    else throw new Error(`unknown property ${words.peek()} of a chain`);
    words.expect(';');
  }
  return base;
}

function readHook(words: Words): NftHook {
  const type = words.next();
  words.expect('hook');
  const hook = words.next();
  words.expect('priority');
  if (type !== 'nat' && type !== 'filter') throw new Error(`type ${type} of a chain`);
  if (!isHook(hook)) throw new Error(`hook ${hook}`);
  return { type, hook, priority: readPriority(words.next()) };
}

function isHook(text: string): text is NftHook['hook'] {
  return ['prerouting', 'input', 'forward', 'output', 'postrouting'].includes(text);
}

function readPriority(text: string): number {
  const [, name, number = '0'] = /^([a-z]*)([+-]?\d+)?$/.exec(text) ?? [];
  const base = name === '' ? 0 : PRIORITY[name ?? ''];
  if (base === undefined) throw new Error(`priority ${text}`);
  return base + Number(number);
}

function readSetOptions(words: Words): Omit<NamedSet, 'elements'> {
  let timeout: number | undefined;
  const flags: string[] = [];
  words.expect('{');
  while (!words.accept('}')) {
    const property = words.next();
    if (property === 'timeout') timeout = Number(words.next().replace(/s$/, ''));
    else if (property === 'flags') flags.push(...readUntil(words, ';'));
    else if (property === 'type' || property === 'comment') readUntil(words, ';');
    else throw new Error(`unknown property ${property} of a set`);
    words.expect(';');
  }
  const unknown = flags.find((flag) => !['dynamic', 'timeout', ','].includes(flag));
  if (unknown !== undefined) throw new Error(`unknown flag ${unknown} of a set`);
  return { isDynamic: flags.includes('dynamic'), timeout };
}

function readUntil(words: Words, end: string): readonly string[] {
  const read: string[] = [];
  while (words.peek() !== end) read.push(words.next());
  return read;
}

function readElement(words: Words, set: NamedSet): void {
  words.expect('{');
  const key = readKey(words);
  if (words.accept('comment')) words.next();
  const verdict = words.accept(':') ? readVerdict(words) : undefined;
  words.expect('}');
  set.elements.set(key, verdict);
}
