import { parseIp, isIp4 } from '../../base/ip.ts';
import { KernelError } from '../kernel-error.ts';

/** Maps options of the rule itself (not of a match or target) to their short form. */
const GLOBAL = new Map([
  ['--source', '-s'],
  ['--src', '-s'],
  ['-s', '-s'],
  ['--destination', '-d'],
  ['--dst', '-d'],
  ['-d', '-d'],
  ['--protocol', '-p'],
  ['--proto', '-p'],
  ['-p', '-p'],
  ['--in-interface', '-i'],
  ['-i', '-i'],
  ['--out-interface', '-o'],
  ['-o', '-o'],
]);

const MATCH = new Set(['-m', '--match']);
const TARGET = new Map([
  ['-j', '-j'],
  ['--jump', '-j'],
  ['-g', '-g'],
  ['--goto', '-g'],
]);

/** Targets to which iptables-save adds their default option. */
const DEFAULTS = new Set([
  '-j REJECT --reject-with icmp-port-unreachable',
  '-j REJECT --reject-with icmp6-port-unreachable',
]);

// iptables-save quotes arguments with special characters. Inside quotes, a backslash escapes any character.
const WORD = /"((?:[^"\\]|\\.)*)"|(\S+)/gs;

/** Splits a line of iptables-save into arguments. */
export function splitRule(line: string): string[] {
  return Array.from(line.matchAll(WORD), ([, quoted, plain]) =>
    quoted === undefined ? (plain ?? '') : quoted.replace(/\\(.)/gs, '$1'),
  );
}

/** Quotes an argument for iptables-restore. Throws on control characters: a newline would start another command. */
export function quoteArgument(argument: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what must be found
  if (/[\u0000-\u001f\u007f]/.test(argument)) {
    throw new KernelError('iptables', 'EINVAL', `control character in a rule: ${JSON.stringify(argument)}`);
  }
  if (/^[A-Za-z0-9_.,:/!+=@%-]+$/.test(argument)) return argument;
  return `"${argument.replace(/["\\]/g, '\\$&')}"`;
}

/** Returns a rule in the words of iptables-save. */
export function ruleText(args: readonly string[]): string {
  return args.map(quoteArgument).join(' ');
}

interface Clause {
  /** For example "-m set" or "-j MARK". Options of the rule itself include the value: "! -i eth0". */
  readonly name: string;
  /** Each option with its values, prefixed with "! " if negated. */
  readonly options: string[];
}

/**
 * Returns a canonical form, equal for a rule that we write and for the same rule printed by iptables-save: clauses and
 * options sorted (they are all ANDed), long names shortened, /32 and /128 added, marks in one hexadecimal notation,
 * defaults omitted.
 */
export function canonicalRule(args: readonly string[]): string {
  const clauses = parseClauses(args).map(({ name, options }) => [name, ...options.sort()].join(' '));
  return clauses
    .map((clause) => (DEFAULTS.has(clause) ? clause.replace(/ --reject-with .*/, '') : clause))
    .sort()
    .join(' | ');
}

function parseClauses(args: readonly string[]): Clause[] {
  const clauses: Clause[] = [];
  let clause: Clause = { name: '', options: [] };
  let negated = '';
  const open = (name: string): void => {
    clause = { name, options: [] };
    clauses.push(clause);
  };
  for (let at = 0; at < args.length;) {
    const word = args[at++] ?? '';
    const global = GLOBAL.get(word);
    const target = TARGET.get(word);
    if (word === '!') {
      negated = '! ';
      continue;
    }
    if (global !== undefined)
      clauses.push({ name: `${negated}${global} ${globalValue(global, args[at++] ?? '')}`, options: [] });
    else if (MATCH.has(word)) open(`-m ${args[at++] ?? ''}`);
    else if (target !== undefined) open(`${target} ${args[at++] ?? ''}`);
    else if (word.startsWith('--')) {
      const end = valuesEnd(args, at);
      clause.options.push(negated + option(clause.name, word, args.slice(at, end)));
      at = end;
    } else clause.options.push(word);
    negated = '';
  }
  return clauses;
}

/** Returns the end of an option's values: the next option, the next clause or a negation. */
function valuesEnd(args: readonly string[], start: number): number {
  let end = start;
  while (end < args.length) {
    const word = args[end] ?? '';
    // Any other word is a value, even if it begins with "-".
    if (word === '!' || word.startsWith('--') || GLOBAL.has(word) || MATCH.has(word) || TARGET.has(word)) break;
    end++;
  }
  return end;
}

function globalValue(name: string, value: string): string {
  if (name === '-p') return value.toLowerCase();
  return name === '-s' || name === '-d' ? address(value) : value;
}

/** Adds the missing prefix length to an address; returns anything else unchanged. */
function address(value: string): string {
  const slash = value.indexOf('/');
  const ip = parseIp(slash < 0 ? value : value.slice(0, slash));
  if (ip === undefined) return value;
  const prefix = slash < 0 ? (isIp4(ip) ? '32' : '128') : value.slice(slash + 1);
  return `${ip.toString(16)}/${prefix}`;
}

function option(clause: string, name: string, values: readonly string[]): string {
  const [value = ''] = values;
  if (clause === '-j MARK') return markOption(name, value);
  if (clause === '-m mark' && name === '--mark') return `--mark ${hexPair(value, 'ffffffff')}`;
  if (clause === '-m conntrack' && name === '--ctstate') return `${name} ${value.split(',').sort().join(',')}`;
  if (clause === '-j DNAT' && name === '--to-destination') return `${name} ${destination(value)}`;
  if (clause === '-m ipvs' && name === '--vaddr') return `${name} ${address(value)}`;
  if (clause === '-m ipvs' && name === '--vproto') return `${name} ${protocolNumber(value)}`;
  return [name, ...values].join(' ');
}

/** An IPv6 address of ::/96 may be printed with the notation of IPv4 at its end. */
function destination(value: string): string {
  const [, bracketed = '', port = ''] = /^\[([^\]]+)\](:\d+)?$/.exec(value) ?? [];
  const ip = parseIp(bracketed);
  return ip === undefined ? value : `${ip.toString(16)}${port}`;
}

function protocolNumber(value: string): string {
  const numbers: Readonly<Record<string, string>> = { tcp: '6', udp: '17', sctp: '132' };
  return numbers[value.toLowerCase()] ?? value;
}

/** Converts to --set-xmark: iptables accepts five notations for "value = (value & ~mask) ^ set" and prints one. */
function markOption(name: string, value: string): string {
  const plain = hex(value);
  switch (name) {
    case '--or-mark':
      return `--set-xmark ${plain}/${plain}`;
    case '--xor-mark':
      return `--set-xmark ${plain}/0`;
    case '--and-mark':
      return `--set-xmark 0/${(~Number(value) >>> 0).toString(16)}`;
    case '--set-xmark':
      return `--set-xmark ${hexPair(value, 'ffffffff')}`;
    case '--set-mark': {
      const [set = '0', mask = 'ffffffff'] = hexPair(value, 'ffffffff').split('/');
      return `--set-xmark ${set}/${((parseInt(mask, 16) | parseInt(set, 16)) >>> 0).toString(16)}`;
    }
    default:
      return `${name} ${value}`;
  }
}

function hexPair(value: string, mask: string): string {
  const [first = '', second] = value.split('/');
  return `${hex(first)}/${second === undefined ? mask : hex(second)}`;
}

function hex(value: string): string {
  const number = Number(value);
  return Number.isInteger(number) ? number.toString(16) : value;
}
