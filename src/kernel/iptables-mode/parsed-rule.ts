import { type IpAddress, parseIp } from '../../base/ip.ts';
import { type Port, toPort } from '../../base/port.ts';
import { type Protocol, PROTOCOL_NUMBER } from '../../base/protocol.ts';
import { splitRule } from '../iptables/iptables-rule.ts';

/** The parts of a rule by which service ports are recognized. Negated matches are not among them. */
export interface ParsedRule {
  readonly source?: string;
  readonly destination?: IpAddress;
  readonly protocol?: Protocol;
  readonly port?: Port;
  readonly comment?: string;
  readonly target?: string;
}

const OPTIONS: Readonly<Record<string, 's' | 'd' | 'p' | 'port' | 'comment' | 'target'>> = {
  '-s': 's',
  '-d': 'd',
  '-p': 'p',
  '--dport': 'port',
  '--comment': 'comment',
  '-j': 'target',
};

/** Parses a rule of iptables-save; the order of its parts does not matter. */
export function parseRule(text: string): ParsedRule {
  const words = splitRule(text);
  const found: Partial<Record<'s' | 'd' | 'p' | 'port' | 'comment' | 'target', string>> = {};
  for (let at = 0; at < words.length - 1; at++) {
    const option = OPTIONS[words[at] ?? ''];
    if (option === undefined || words[at - 1] === '!') continue;
    at += 1;
    found[option] = words[at] ?? '';
  }
  const destination = found.d === undefined ? undefined : hostOf(found.d);
  const protocol = found.p?.toUpperCase();
  const port = found.port === undefined ? undefined : toPort(Number(found.port));
  return {
    ...(found.s === undefined ? {} : { source: found.s }),
    ...(destination === undefined ? {} : { destination }),
    ...(isProtocol(protocol) ? { protocol } : {}),
    ...(port === undefined ? {} : { port }),
    ...(found.comment === undefined ? {} : { comment: found.comment }),
    ...(found.target === undefined ? {} : { target: found.target }),
  };
}

function isProtocol(text: string | undefined): text is Protocol {
  return text !== undefined && Object.hasOwn(PROTOCOL_NUMBER, text);
}

/** Returns a single address; undefined for a network. */
function hostOf(text: string): IpAddress | undefined {
  const [address = '', prefix] = text.split('/');
  const whole = address.includes(':') ? '128' : '32';
  return prefix === undefined || prefix === whole ? parseIp(address) : undefined;
}
