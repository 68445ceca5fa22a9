/** Every pod named answers; one of them, always the same; some of them, no matter which. */
export type Who = 'all' | 'one' | 'some';

/** The expected result of a probe. */
export type ProbeExpectation =
  /** Each of these pods responds, and no other. */
  | {
      readonly kind: 'answered';
      readonly by: readonly string[];
      readonly who: Who;
      readonly source?: SourceSeen;
    }
  | { readonly kind: 'refused' }
  | { readonly kind: 'silent' };

/** The source address that the pod must see: the prober's own, or one of a node's. */
export type SourceSeen = { readonly kind: 'kept' } | { readonly kind: 'node'; readonly node: string };

/** `client-0 tcp 10.202.0.10:80 -> pod-0-0, pod-0-1; source kept` */
export interface Probe {
  readonly text: string;
  readonly from: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly address: string;
  readonly port: number;
  /** The prober's own port; any when undefined. */
  readonly sourcePort: number | undefined;
  /** How long the probe is repeated until it has the expected result. */
  readonly withinMs: number;
  readonly expect: ProbeExpectation;
}

const PROBE =
  /^(\S+) (tcp|udp|sctp) (?:\[([0-9a-f:]+)\]|([\d.]+)):(\d+)(?: from port (\d+))? -> (.+?)(?:; within (\d+) s)?$/;

export function parseProbe(file: string, text: string): Probe {
  const parts = PROBE.exec(text);
  const [, from, protocol, ip6, ip4, port, sourcePort, outcome, seconds = '0'] = parts ?? [];
  const address = ip6 ?? ip4;
  if (from === undefined || protocol === undefined || address === undefined || outcome === undefined) {
    throw new Error(`${file}: no probe: ${text}`);
  }
  return {
    text,
    from,
    protocol: protocol as Probe['protocol'],
    address,
    port: Number(port),
    sourcePort: sourcePort === undefined ? undefined : Number(sourcePort),
    withinMs: Number(seconds) * 1000,
    expect: parseExpectation(file, outcome),
  };
}

function parseExpectation(file: string, text: string): ProbeExpectation {
  if (text === 'refused') return { kind: 'refused' };
  if (text === 'silence') return { kind: 'silent' };
  const [who = '', condition] = text.split('; ');
  const [, few, names = ''] = /^(?:(one|some) of )?(.+)$/.exec(who) ?? [];
  const answered = { kind: 'answered', by: names.split(', '), who: few === undefined ? 'all' : (few as Who) } as const;
  if (condition === undefined) return answered;
  if (condition === 'source kept') return { ...answered, source: { kind: 'kept' } };
  const node = /^source (node-\d)$/.exec(condition)?.[1];
  if (node === undefined) throw new Error(`${file}: what is "${condition}"?`);
  return { ...answered, source: { kind: 'node', node } };
}

// A UDP socket gets EPERM if IPVS has no endpoint for the packet.
const REFUSALS = ['ECONNREFUSED', 'EPERM'];

/** One outcome of one attempt, as the test bed reports it. */
export type Outcome =
  | { readonly ok: true; readonly answeredBy: string; readonly sourceSeen: string }
  | { readonly ok: false; readonly code: string };

/** Returns why these outcomes differ from the expected result, or undefined if they do not. */
export function judge(
  probe: Probe,
  outcomes: readonly Outcome[],
  addressesOf: (name: string) => readonly string[],
): string | undefined {
  const words = outcomes.map((outcome) =>
    outcome.ok ? `${outcome.answeredBy} (source ${outcome.sourceSeen})` : outcome.code,
  );
  const got = [...new Set(words)].sort().join(', ');
  return satisfied(probe, outcomes, addressesOf) ? undefined : `${probe.text}\n      got ${got}`;
}

function satisfied(
  { expect, from }: Probe,
  outcomes: readonly Outcome[],
  addressesOf: (name: string) => readonly string[],
): boolean {
  switch (expect.kind) {
    case 'refused':
      return outcomes.every((outcome) => !outcome.ok && REFUSALS.includes(outcome.code));
    case 'silent':
      return outcomes.every((outcome) => !outcome.ok && outcome.code === 'TIMEOUT');
    case 'answered': {
      const seen = new Set(outcomes.map((outcome) => (outcome.ok ? outcome.answeredBy : outcome.code)));
      const right = [...seen].every((who) => expect.by.includes(who));
      const complete =
        expect.who === 'all' ? expect.by.every((who) => seen.has(who)) : expect.who === 'some' || seen.size === 1;
      const own =
        expect.source === undefined
          ? undefined
          : addressesOf(expect.source.kind === 'kept' ? from : expect.source.node);
      return (
        right && complete && outcomes.every((outcome) => outcome.ok && own?.includes(outcome.sourceSeen) !== false)
      );
    }
  }
}
