import { type Cidr, cidrContains, cidrOf, parseCidr } from '../../base/cidr.ts';
import { isIp4, parseIp } from '../../base/ip.ts';
import type { Packet } from './packet.ts';
import type { SetMatch } from './set-match.ts';

/** A rule that a packet matches. */
export interface RuleMatch {
  /** "SET ENTRY" of each ipset entry that matched. */
  readonly entries: readonly string[];
  readonly target: string;
  /** The options of the target. */
  readonly options: readonly string[];
}

type Test = (value: string, packet: Packet) => boolean;

/** The options of our rules that test a packet. The packet is the first one of a TCP, UDP or SCTP connection. */
const TESTS: Readonly<Record<string, Test>> = {
  '-s': (value, { source }) => cidrContains(cidr(value), source),
  '-d': (value, { destination }) => cidrContains(cidr(value), destination),
  '-p': (value, { protocol }) => value === protocol.toLowerCase(),
  '-i': (value, { inInterface = '' }) =>
    value.endsWith('+') ? inInterface.startsWith(value.slice(0, -1)) : inInterface === value,
  '--mark': (value, { mark }) => {
    const [wanted = 0, mask = -1] = value.split('/').map(Number);
    return (mark & mask) >>> 0 === wanted;
  },
  '--ctstate': (value) => value.split(',').includes('NEW'),
  '--src-type': (_local, { sourceLocal }) => sourceLocal,
  '--dst-type': (_local, { destinationLocal }) => destinationLocal,
  // Packets of other protocols do not match the -p of these rules.
  '--icmp-type': () => false,
  '--icmpv6-type': () => false,
};

/** Returns whether the packet has what the option of a rule asks for; undefined if the option or its value is not known here. */
export function testOption(option: string, value: string, packet: Packet): boolean | undefined {
  if ((option === '-s' || option === '-d') && cidrOrAddress(value) === undefined) return undefined;
  return TESTS[option]?.(value, packet);
}

/** Returns how the packet matches the rule; undefined if it does not. Throws on options that no planned rule has. */
export function matchRule(rule: readonly string[], packet: Packet, sets: SetMatch): RuleMatch | undefined {
  const jump = rule.indexOf('-j');
  const entries: string[] = [];
  let matchesAll = true;
  for (let at = 0; at < jump; at++) {
    const negated = rule[at] === '!';
    if (negated) at++;
    const option = rule[at] ?? '';
    let matches: boolean;
    if (option === '-m' || option === '--comment') {
      at++;
      continue;
    } else if (option === '--match-set') {
      const [name = '', directions = ''] = rule.slice(at + 1, at + 3);
      const entry = sets(name, directions, packet);
      matches = entry !== undefined;
      if (entry !== undefined) entries.push(`${name} ${entry}`);
      at += 2;
    } else if (option === '--physdev-is-in') {
      // Bridge ports are not known. The rule that follows does the same for their packets.
      matches = false;
    } else {
      const test = TESTS[option];
      if (test === undefined) throw new Error(`option ${option} of a rule is not known: ${rule.join(' ')}`);
      matches = test(rule[++at] ?? '', packet);
    }
    if (matches === negated) matchesAll = false;
  }
  if (!matchesAll) return undefined;
  return { entries, target: rule[jump + 1] ?? '', options: rule.slice(jump + 2) };
}

function cidr(text: string): Cidr {
  const parsed = cidrOrAddress(text);
  if (parsed === undefined) throw new Error(`${text} of a rule is not an address`);
  return parsed;
}

function cidrOrAddress(text: string): Cidr | undefined {
  const address = parseIp(text);
  return address === undefined ? parseCidr(text) : cidrOf(address, isIp4(address) ? 32 : 128);
}
