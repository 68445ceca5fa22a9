import type { Packet } from './packet.ts';
import { testOption } from './rule-match.ts';

/** A rule of another program that matches the packet or, if not `certain`, may match. */
export interface OtherMatch {
  readonly certain: boolean;
  /** "" if the rule has none. */
  readonly target: string;
  readonly options: readonly string[];
  /** Whether the chain of the target replaces this one (-g). */
  readonly isGoto: boolean;
}

/** Options of the rule itself and of matches that have one value and can be decided for the first packet of a connection. */
const DECIDED: Readonly<Record<string, string>> = {
  '-s': '-s',
  '-d': '-d',
  '-p': '-p',
  '-i': '-i',
  '--mark': '--mark',
  '--ctstate': '--ctstate',
  '--state': '--ctstate',
  '--src-type': '--src-type',
  '--dst-type': '--dst-type',
  '--dport': '--dport',
  '--dports': '--dport',
};

/** Returns undefined if the rule cannot match. `mark` is undefined if it is not known. */
export function matchOtherRule(
  rule: readonly string[],
  mark: number | undefined,
  packet: Packet,
): OtherMatch | undefined {
  if (rule[0] === '-P') return { certain: true, target: rule[1] ?? '', options: [], isGoto: false };
  const at = rule.findIndex((word) => word === '-j' || word === '-g');
  const end = at < 0 ? rule.length : at;
  let certain = true;
  for (let i = 0; i < end; i++) {
    const negated = rule[i] === '!';
    if (negated) i++;
    const word = rule[i] ?? '';
    if (word === '-m' || word === '--comment') {
      i++;
      continue;
    }
    const option = DECIDED[word];
    const result = option === undefined ? undefined : decide(option, rule[++i] ?? '', mark, packet);
    if (result === undefined) certain = false;
    else if (result === negated) return undefined;
  }
  const [target = '', ...options] = at < 0 ? [] : rule.slice(at + 1);
  return { certain, target, options, isGoto: rule[at] === '-g' };
}

function decide(option: string, value: string, mark: number | undefined, packet: Packet): boolean | undefined {
  switch (option) {
    case '--mark':
      return mark === undefined ? undefined : testOption(option, value, { ...packet, mark });
    case '--src-type':
    case '--dst-type':
      return value === 'LOCAL' ? testOption(option, value, packet) : undefined;
    case '-i':
      return packet.inInterface === undefined ? undefined : testOption(option, value, packet);
    case '-p':
      return /^\d+$/.test(value) ? undefined : value === 'all' || testOption(option, value, packet);
    case '--dport':
      return value.split(',').some((range) => isWithin(packet.port, range));
    default:
      return testOption(option, value, packet);
  }
}

function isWithin(port: number, range: string): boolean {
  const [first = '', last = first] = range.split(':');
  return port >= Number(first || 0) && port <= Number(last || 65_535);
}
