import { type Cidr, cidrContains, parseCidr } from '../../src/base/cidr.ts';
import { type IpAddress, formatIp, parseIp } from '../../src/base/ip.ts';
import { addressAndPort, addressOf } from './address-text.ts';
import type { Passage, Step, Verdict } from './ruleset.ts';
import type { Words } from './words.ts';

/** A set or a map of verdicts. */
export interface NamedSet {
  /** Whether rules add elements, which are then clients. */
  readonly isDynamic: boolean;
  /** In seconds. */
  readonly timeout: number | undefined;
  readonly elements: Map<string, Verdict | undefined>;
}

type FindSet = (name: string) => NamedSet;

/** Compiles a rule, from its first statement on. Throws on what it does not know. */
export function compileRule(words: Words, findSet: FindSet): readonly Step[] {
  const steps: Step[] = [];
  while (!words.isAtEnd) {
    if (words.accept('comment')) words.next();
    else steps.push(readStatement(words, findSet));
  }
  return steps;
}

function readStatement(words: Words, findSet: FindSet): Step {
  const verdict = acceptVerdict(words);
  if (verdict !== undefined) return () => verdict;
  const word = words.peek();
  const read = STATEMENTS[word];
  if (read === undefined) return readComparison(words, findSet);
  words.next();
  return read(words, findSet);
}

const STATEMENTS: Readonly<Record<string, (words: Words, findSet: FindSet) => Step>> = {
  ct: readConnection,
  mark: readMark,
  masquerade: (words) => {
    words.accept('fully-random');
    return (passage) => {
      passage.isMasqueraded = true;
      return { kind: 'accept' };
    };
  },
  fib: (words) => {
    const field = words.next();
    words.expect('type', 'local');
    const address = fieldOf(field);
    return (passage) => passage.node.isLocal(address(passage));
  },
  iifname: (words) => {
    const isNegated = words.accept('!=');
    const name = words.next().replaceAll('"', '');
    const test = name.endsWith('*')
      ? ({ through }: Passage) => through.startsWith(name.slice(0, -1))
      : ({ through }: Passage) => through === name;
    return (passage) => test(passage) !== isNegated;
  },
  numgen: (words) => {
    const count = readRandom(words);
    words.expect('vmap');
    const verdicts = new Map(words.list(() => readPair(words, () => readVerdict(words))));
    return ({ choose }) => verdicts.get(chooseOf(count, choose)) ?? false;
  },
  dnat: readTranslation,
  update: readUpdate,
  counter: (words) => {
    words.expect('name');
    words.next();
    return () => true;
  },
};

/** The packet is the first of its connection. */
function readConnection(words: Words): Step {
  if (words.accept('state', 'new')) return () => true;
  words.expect('status', 'dnat');
  return ({ isTranslated }) => isTranslated;
}

function readMark(words: Words): Step {
  if (words.accept('and')) {
    const mask = words.number();
    words.expect('!=', '0');
    return ({ mark }) => (mark & mask) !== 0;
  }
  words.expect('set', 'mark');
  const isOr = words.accept('or');
  if (!isOr) words.expect('xor');
  const bits = words.number();
  return (passage) => {
    passage.mark = (isOr ? passage.mark | bits : passage.mark ^ bits) >>> 0;
    return true;
  };
}

function readTranslation(words: Words): Step {
  if (words.accept('to')) {
    const { address, port } = addressAndPort(words.next());
    return (passage) => translate(passage, address, port);
  }
  words.next();
  words.expect('addr', '.', 'port', 'to', 'numgen');
  const count = readRandom(words);
  words.expect('map');
  const endpoints = new Map(
    words.list(() =>
      readPair(words, () => {
        const address = addressOf(words.next());
        words.expect('.');
        return { address, port: words.number() };
      }),
    ),
  );
  return (passage) => {
    const endpoint = endpoints.get(chooseOf(count, passage.choose));
    return endpoint !== undefined && translate(passage, endpoint.address, endpoint.port);
  };
}

function translate(passage: Passage, address: IpAddress, port: number): Verdict {
  passage.destination = address;
  passage.port = port;
  passage.isTranslated = true;
  return { kind: 'accept' };
}

function readRandom(words: Words): number {
  words.expect('random', 'mod');
  return words.number();
}

function chooseOf(count: number, choose: Passage['choose']): number {
  return choose(Array.from({ length: count }, () => 1 / count));
}

function readPair<T>(words: Words, read: () => T): readonly [number, T] {
  const index = words.number();
  words.expect(':');
  return [index, read()];
}

function readUpdate(words: Words, findSet: FindSet): Step {
  const name = words.next().slice(1);
  const { timeout } = findSet(name);
  words.expect('{');
  const key = readKeyOfPacket(words);
  words.expect('}');
  return (passage) => {
    const clients = passage.clients.get(name) ?? new Map<string, number | undefined>();
    passage.clients.set(name, clients.set(key(passage), timeout));
    return true;
  };
}

/** Reads fields of the packet, and to what they are compared. */
function readComparison(words: Words, findSet: FindSet): Step {
  const key = readKeyOfPacket(words);
  if (words.accept('vmap')) {
    const { elements } = findSet(words.next().slice(1));
    return (passage) => elements.get(key(passage)) ?? false;
  }
  const isNegated = words.accept('!=');
  const test = words.peek().startsWith('@') ? readSetTest(words.next().slice(1), key, findSet) : readTest(words, key);
  return (passage) => test(passage) !== isNegated;
}

type Key = (passage: Passage) => string;
type Test = (passage: Passage) => boolean;

function readSetTest(name: string, key: Key, findSet: FindSet): Test {
  const { isDynamic, elements } = findSet(name);
  if (!isDynamic) return (passage) => elements.has(key(passage));
  return (passage) => {
    const clients = passage.clients.get(name);
    if (clients?.has(key(passage)) !== true) return false;
    passage.affinity = clients.get(key(passage));
    return true;
  };
}

/** Reads a value, or values in braces; networks are possible. */
function readTest(words: Words, key: Key): Test {
  const values = words.peek() === '{' ? words.list(() => words.next()) : [words.next()];
  const networks = values.flatMap((value): readonly Cidr[] => {
    const network = parseCidr(value);
    return network === undefined ? [] : [network];
  });
  const single = new Set(values.map(valueText));
  return (passage) => {
    const value = key(passage);
    const address = parseIp(value);
    return single.has(value) || (address !== undefined && networks.some((network) => cidrContains(network, address)));
  };
}

/** Reads "ip daddr . meta l4proto . th dport", or a part of it. */
function readKeyOfPacket(words: Words): Key {
  const fields: Key[] = [];
  do fields.push(readField(words));
  while (words.accept('.'));
  return (passage) => fields.map((field) => field(passage)).join(' . ');
}

function readField(words: Words): Key {
  if (words.accept('meta', 'l4proto')) return ({ protocol }) => protocol.toLowerCase();
  if (words.accept('th', 'dport')) return ({ port }) => String(port);
  if (!words.accept('ip') && !words.accept('ip6')) throw new Error(`unknown statement ${words.peek()}`);
  const address = fieldOf(words.next());
  return (passage) => textOf(address(passage));
}

/** Texts of addresses: each packet is compared many times. */
const texts = new Map<IpAddress, string>();

function textOf(address: IpAddress): string {
  const text = texts.get(address) ?? formatIp(address);
  texts.set(address, text);
  return text;
}

function fieldOf(field: string): (passage: Passage) => IpAddress {
  if (field === 'saddr') return ({ source }) => source;
  if (field === 'daddr') return ({ destination }) => destination;
  throw new Error(`unknown field ${field}`);
}

/** Reads the key of an element: "10.96.0.1 . tcp . 80". */
export function readKey(words: Words): string {
  const values: string[] = [];
  do values.push(valueText(words.next()));
  while (words.accept('.'));
  return values.join(' . ');
}

/** Addresses have one spelling. */
function valueText(value: string): string {
  const address = parseIp(value);
  return address === undefined ? value : formatIp(address);
}

export function readVerdict(words: Words): Verdict {
  const verdict = acceptVerdict(words);
  if (verdict === undefined) throw new Error(`unknown verdict ${words.peek()}`);
  return verdict;
}

function acceptVerdict(words: Words): Verdict | undefined {
  for (const kind of ['accept', 'drop', 'reject', 'return'] as const) if (words.accept(kind)) return { kind };
  for (const kind of ['jump', 'goto'] as const) if (words.accept(kind)) return { kind, chain: words.next() };
  return undefined;
}
