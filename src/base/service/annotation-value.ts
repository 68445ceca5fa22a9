import { parseDuration } from '../duration.ts';
import { toPort } from '../port.ts';
import type { ServiceAnnotation } from './service-annotations.ts';
import type { ServiceRequests, WeightRule } from './service-requests.ts';

/**
 * The schedulers of the Linux kernel. The kernel runs modprobe for a scheduler that it does not know, so that a name
 * must be listed here before the kernel is asked for it.
 */
const SCHEDULERS: ReadonlySet<string> = new Set(
  ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'dh', 'sh', 'mh', 'sed', 'nq', 'fo', 'ovf', 'twos'], //
);

/** The longest value that is read. */
export const MAX_VALUE = 1_000;
const MAX_UINT32 = 2 ** 32 - 1;
/** The UDP port of GUE in the registry of IANA. */
const GUE_PORT = 6080;
/**
 * The kernel accepts more. But if all real servers are at their limit, wrr walks through all of them once for each number
 * up to the largest weight, for each new connection: with 65535 and 100 real servers, 27 ms.
 */
const MAX_WEIGHT = 256;

/** Returns what the value asks for, or what a valid value looks like. */
type Reader = (value: string) => ServiceRequests | string;

const READERS: Readonly<Record<ServiceAnnotation, Reader>> = {
  scheduler: (value) => (SCHEDULERS.has(value) ? { scheduler: value } : `one of ${[...SCHEDULERS].join(', ')}`),
  'scheduler-flags': readSchedulerFlags,
  weights: readWeights,
  'connection-limit': readConnectionLimit,
  'drain-timeout': readDrainTimeout,
  'session-affinity-mask': readAffinityMask,
  'one-packet': (value) => readSwitch(value, { onePacket: true }),
  forwarding: readForwarding,
  'endpoint-check': (value) => readSwitch(value, { endpointCheck: true }),
};

/** Returns what the value of an annotation asks for. If it is not valid, completes the sentence "want ...". */
export function readAnnotationValue(name: ServiceAnnotation, value: string): ServiceRequests | string {
  return value.length > MAX_VALUE ? `at most ${MAX_VALUE} characters` : READERS[name](value);
}

function readSwitch(value: string, asked: ServiceRequests): ServiceRequests | string {
  if (value === 'true') return asked;
  return value === 'false' ? {} : 'true or false';
}

function readSchedulerFlags(value: string): ServiceRequests | string {
  if (value === 'none') return { schedulerFlags: { fallback: false, port: false } };
  const flags = value.split(',').map((flag) => /^(sh|mh)-(fallback|port)$/.exec(flag));
  const scheduler = flags[0]?.[1];
  if ((scheduler !== 'sh' && scheduler !== 'mh') || flags.some((flag) => flag?.[1] !== scheduler)) {
    return 'flags of one scheduler, such as "sh-fallback,sh-port" or "mh-fallback,mh-port", or "none"';
  }
  const has = (flag: string): boolean => flags.some((each) => each?.[2] === flag);
  return { schedulerFlags: { scheduler, fallback: has('fallback'), port: has('port') } };
}

function readWeights(value: string): ServiceRequests | string {
  const weights = value.split(',').map(readWeight);
  const places = new Set(weights.map((rule) => rule && (rule.zone ?? rule.local)));
  // Of two weights for the same endpoints, one would be ignored.
  return weights.every((rule) => rule !== undefined) && places.size === weights.length
    ? { weights }
    : `weights from 0 to ${MAX_WEIGHT} such as "zone=a:3,zone=b:1" or "node=local:10,node=other:1", none of them twice`;
}

function readWeight(text: string): WeightRule | undefined {
  const groups = /^(?<by>zone|node)=(?<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,62}):(?<weight>\d{1,3})$/.exec(text)?.groups;
  const { by, name = '' } = groups ?? {};
  const weight = Number(groups?.['weight']);
  if (by === undefined || weight > MAX_WEIGHT) return undefined;
  if (by === 'zone') return { zone: name, weight };
  return name === 'local' || name === 'other' ? { local: name === 'local', weight } : undefined;
}

function readConnectionLimit(value: string): ServiceRequests | string {
  const [, first = '', second] = /^(\d{1,10})(?:\/(\d{1,10}))?$/.exec(value) ?? [];
  const [upper, lower] = [Number(first), Number(second ?? 0)];
  return first !== '' && upper >= 1 && upper <= MAX_UINT32 && lower < upper && second !== '0'
    ? { connectionLimit: { upper, lower } }
    : 'a number of connections above 0, such as "1000", or that and a lower one at which it is over, such as "1000/800"';
}

function readDrainTimeout(value: string): ServiceRequests | string {
  const drainTimeout = parseDuration(value);
  return drainTimeout === undefined || drainTimeout < 0
    ? 'a duration such as "30s" or "1h30m", or "0s" for no limit'
    : { drainTimeout };
}

function readAffinityMask(value: string): ServiceRequests | string {
  const [, first, second] = /^\/(\d{1,3})(?:,\/(\d{1,3}))?$/.exec(value) ?? [];
  const lengths = [first, second].filter((text) => text !== undefined).map(Number);
  const [four, six] = lengths.length === 1 && Number(first) > 32 ? [undefined, lengths[0]] : lengths;
  const isValid =
    lengths.length > 0 && (four === undefined || isWithin(four, 32)) && (six === undefined || isWithin(six, 128));
  if (!isValid) return 'a prefix length such as "/24" for IPv4, one above /32 for IPv6, or "/24,/64" for both';
  return { affinityPrefix: { ...(four === undefined ? {} : { 4: four }), ...(six === undefined ? {} : { 6: six }) } };
}

function readForwarding(value: string): ServiceRequests | string {
  if (value === 'nat') return {};
  if (value === 'tunnel' || value === 'route') return { forwarding: value };
  if (value === 'tunnel-gre') return { forwarding: 'tunnel', encapsulation: { type: 'gre' } };
  const gue = /^tunnel-gue(?::(\d{1,5}))?$/.exec(value);
  const port = gue === null ? undefined : toPort(Number(gue[1] ?? GUE_PORT));
  return port === undefined
    ? 'nat, tunnel, tunnel-gre, tunnel-gue, tunnel-gue:PORT or route'
    : { forwarding: 'tunnel', encapsulation: { type: 'gue', port } };
}

function isWithin(length: number, max: number): boolean {
  return length >= 1 && length <= max;
}
