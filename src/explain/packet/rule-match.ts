import { type Cidr, cidrContains, cidrOf, parseCidr } from '../../base/cidr.ts';
import { type IpAddress, isIp4, parseIp } from '../../base/ip.ts';
import type { SeenPacket } from './packet.ts';
import type { SetMatch } from './set-match.ts';

/** A rule that matches the packet or, if not `certain`, may match. */
export interface RuleMatch {
  readonly certain: boolean;
  /** "SET ENTRY" of each ipset entry that matched. */
  readonly entries: readonly string[];
  /** "" if the rule has none. */
  readonly target: string;
  readonly options: readonly string[];
  /** Whether the chain of the target replaces this one (-g). */
  readonly isGoto: boolean;
}

/** Whether the packet has what an option asks for; undefined if that cannot be decided. */
type Test = (value: string, packet: SeenPacket) => boolean | undefined;

const inStates: Test = (value) => value.split(',').includes('NEW');
const toPorts: Test = (value, { port }) => value.split(',').some((range) => isWithin(port, range));

/** Options with one value that can be decided for the first packet of a TCP, UDP or SCTP connection. */
const TESTS: Readonly<Record<string, Test>> = {
  '-s': (value, { source }) => isIn(value, source),
  '-d': (value, { destination }) => isIn(value, destination),
  '-p': (value, { protocol }) =>
    /^\d+$/.test(value) ? undefined : value === 'all' || value === protocol.toLowerCase(),
  '-i': (value, { inInterface }) => {
    if (inInterface === undefined) return undefined;
    return value.endsWith('+') ? inInterface.startsWith(value.slice(0, -1)) : inInterface === value;
  },
  '--mark': (value, { mark }) => {
    const [wanted = 0, mask = -1] = value.split('/').map(Number);
    return mark === undefined ? undefined : (mark & mask) >>> 0 === wanted;
  },
  '--ctstate': inStates,
  '--state': inStates,
  '--src-type': (value, { sourceLocal }) => (value === 'LOCAL' ? sourceLocal : undefined),
  '--dst-type': (value, { destinationLocal }) => (value === 'LOCAL' ? destinationLocal : undefined),
  // Packets of other protocols do not match the -p of these rules.
  '--icmp-type': () => false,
  '--icmpv6-type': () => false,
  '--dport': toPorts,
  '--dports': toPorts,
};

/**
 * Returns how the packet matches a rule; undefined if it does not.
 *
 * @param sets absent for rules of other programs, of which not all can be decided. With sets, throws on options that no planned rule has
 */
export function matchRule(rule: readonly string[], packet: SeenPacket, sets?: SetMatch): RuleMatch | undefined {
  if (rule[0] === '-P') return { certain: true, entries: [], target: rule[1] ?? '', options: [], isGoto: false };
  const at = rule.findIndex((word) => word === '-j' || word === '-g');
  const end = at < 0 ? rule.length : at;
  const entries: string[] = [];
  let certain = true;
  let matches = true;
  for (let i = 0; i < end; i++) {
    const negated = rule[i] === '!';
    if (negated) i++;
    const word = rule[i] ?? '';
    if (word === '-m' || word === '--comment') {
      i++;
      continue;
    }
    let result: boolean | undefined;
    if (sets !== undefined && word === '--match-set') {
      const [name = '', directions = ''] = rule.slice(i + 1, i + 3);
      i += 2;
      const entry = sets(name, directions, packet);
      result = entry !== undefined;
      if (entry !== undefined) entries.push(`${name} ${entry}`);
    } else if (sets !== undefined && word === '--physdev-is-in') {
      // Bridge ports are not known. The rule that follows does the same for their packets.
      result = false;
    } else {
      const test = TESTS[word];
      if (test !== undefined) result = test(rule[++i] ?? '', packet);
    }
    if (result === negated) matches = false;
    if (result !== undefined) continue;
    if (sets !== undefined) throw new Error(`option ${word} of a rule is not known: ${rule.join(' ')}`);
    certain = false;
  }
  if (!matches) return undefined;
  const [target = '', ...options] = at < 0 ? [] : rule.slice(at + 1);
  return { certain, entries, target, options, isGoto: rule[at] === '-g' };
}

function isIn(text: string, address: IpAddress): boolean | undefined {
  const ip = parseIp(text);
  const network: Cidr | undefined = ip === undefined ? parseCidr(text) : cidrOf(ip, isIp4(ip) ? 32 : 128);
  return network && cidrContains(network, address);
}

function isWithin(port: number, range: string): boolean {
  const [first = '', last = first] = range.split(':');
  return port >= Number(first || 0) && port <= Number(last || 65_535);
}
