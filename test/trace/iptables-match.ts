import { type Cidr, cidrContains, cidrOf, parseCidr } from '../../src/base/cidr.ts';
import { type IpAddress, familyOf, parseIp } from '../../src/base/ip.ts';
import { isProtocol } from '../../src/base/protocol.ts';
import type { Options } from './iptables-options.ts';
import type { Passage, Step } from './ruleset.ts';

/** Compiles a match with its options: `header` is that of addresses, interface and protocol. */
export function compileMatch(options: Options): readonly Step[] {
  const compile = MATCHES[options.name];
  if (compile === undefined) throw new Error(`unknown match ${options.name}`);
  return compile(options);
}

const MATCHES: Readonly<Record<string, (options: Options) => readonly Step[]>> = {
  header,
  comment: (options) => {
    options.required('--comment');
    return [];
  },
  tcp: ofProtocol,
  udp: ofProtocol,
  sctp: ofProtocol,
  addrtype: (options) => [
    ...matching(options, '--src-type', (type) => isOfType(type, ({ source }) => source)),
    ...matching(options, '--dst-type', (type) => isOfType(type, ({ destination }) => destination)),
  ],
  conntrack: (options) => matching(options, '--ctstate', isInState),
  mark: (options) => matching(options, '--mark', isMarked),
  statistic,
  recent,
  nfacct: (options) => {
    options.required('--nfacct-name');
    return [];
  },
};

type Test = (passage: Passage) => boolean;

/** Compiles an option that may be negated. */
function matching(options: Options, name: string, compile: (value: string) => Test): readonly Step[] {
  const option = options.take(name);
  if (option === undefined) return [];
  const test = compile(option.value);
  return [(passage) => test(passage) !== option.isNegated];
}

function header(options: Options): readonly Step[] {
  return [
    ...matching(options, '-s', (text) => isIn(text, ({ source }) => source)),
    ...matching(options, '-d', (text) => isIn(text, ({ destination }) => destination)),
    ...matching(options, '-i', isThrough),
    ...matching(options, '-p', (text) => {
      const protocol = text.toUpperCase();
      if (!isProtocol(protocol)) throw new Error(`protocol ${text}`);
      return (passage) => passage.protocol === protocol;
    }),
  ];
}

function isIn(text: string, address: (passage: Passage) => IpAddress): Test {
  const network = networkOf(text);
  return (passage) => cidrContains(network, address(passage));
}

function networkOf(text: string): Cidr {
  const address = parseIp(text);
  const network = address === undefined ? parseCidr(text) : cidrOf(address, familyOf(address) === 4 ? 32 : 128);
  if (network === undefined) throw new Error(`address ${text}`);
  return network;
}

function isThrough(name: string): Test {
  return name.endsWith('+')
    ? ({ through }) => through.startsWith(name.slice(0, -1))
    : ({ through }) => through === name;
}

function ofProtocol(options: Options): readonly Step[] {
  const protocol = options.name.toUpperCase();
  return [
    (passage) => passage.protocol === protocol,
    ...matching(options, '--dport', (text) => {
      const port = Number(text);
      return (passage) => passage.port === port;
    }),
  ];
}

function isOfType(type: string, address: (passage: Passage) => IpAddress): Test {
  if (type !== 'LOCAL') throw new Error(`address type ${type}`);
  return (passage) => passage.node.isLocal(address(passage));
}

/** The packet is the first of its connection, so only NEW and the state of translated connections match. */
function isInState(text: string): Test {
  const states = text.split(',');
  const unknown = states.find((state) => !['NEW', 'INVALID', 'RELATED', 'ESTABLISHED', 'DNAT'].includes(state));
  if (unknown !== undefined) throw new Error(`state ${unknown}`);
  return ({ isTranslated }) => states.includes('NEW') || (isTranslated && states.includes('DNAT'));
}

function isMarked(text: string): Test {
  const [value = NaN, mask = 0xffff_ffff] = text.split('/').map(Number);
  return ({ mark }) => (mark & mask) >>> 0 === value >>> 0;
}

function statistic(options: Options): readonly Step[] {
  const mode = options.required('--mode');
  if (mode !== 'random') throw new Error(`mode ${mode} of statistic`);
  const probability = Number(options.required('--probability'));
  return [({ choose }) => choose([probability, 1 - probability]) === 0];
}

function recent(options: Options): readonly Step[] {
  const name = options.required('--name');
  for (const ignored of ['--mask', '--rsource', '--reap']) takeIgnored(options, ignored);
  if (options.flag('--set')) {
    return [
      ({ source, clients }) => {
        const list = clients.get(name) ?? new Map<string, number | undefined>();
        clients.set(name, list.set(String(source), undefined));
        return true;
      },
    ];
  }
  const seconds = Number(options.required('--seconds'));
  if (!options.flag('--rcheck')) throw new Error('recent without --set and --rcheck');
  return [
    (passage) => {
      if (passage.clients.get(name)?.has(String(passage.source)) !== true) return false;
      passage.affinity = seconds;
      return true;
    },
  ];
}

/** The mask of a whole address, and what iptables-save adds: they say what is so anyway. */
function takeIgnored(options: Options, name: string): void {
  if (name !== '--mask') {
    options.flag(name);
    return;
  }
  const mask = options.value(name);
  if (mask !== undefined && !/^(255\.){3}255$|^(ffff:){7}ffff$/.test(mask)) throw new Error(`mask ${mask} of recent`);
}
