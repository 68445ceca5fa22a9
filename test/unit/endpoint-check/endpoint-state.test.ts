import { describe, expect, test } from '@jest/globals';
import {
  type ConnectResult,
  type EndpointState,
  type Traffic,
  UNKNOWN,
  afterConnect,
  afterLook,
  askAt,
  restored,
} from '../../../src/endpoint-check/endpoint-state.ts';
import { NO_STATS } from '../../../src/state/server-stats.ts';

/** Packets of 60 bytes, unless those from the endpoint have another size. */
function traffic(connections: number, incomingPackets: number, outgoingPackets: number, size = 60): Traffic {
  const bytes = { incomingBytes: incomingPackets * 60, outgoingBytes: outgoingPackets * size };
  return { connections, incomingPackets, outgoingPackets, ...bytes };
}

/** Packets of open connections to an endpoint, and from it, of these sizes. */
function sized(incomingPackets: number, to: number, outgoingPackets: number, from: number): Traffic {
  const bytes = { incomingBytes: incomingPackets * to, outgoingBytes: outgoingPackets * from };
  return { connections: 0, incomingPackets, outgoingPackets, ...bytes };
}

/** An endpoint that has answered this node. */
const TRUSTED = afterConnect(UNKNOWN, 'answered', -Infinity);

/** 3 connections of which nothing came back, and whose first packets were repeated. */
const UNANSWERED = traffic(3, 6, 0);
const ANSWERED = traffic(3, 12, 12);

type Step = readonly [at: number, what: Traffic | ConnectResult];

/** Looks and connects at these times, in ms. */
function play(steps: readonly Step[], from: EndpointState = TRUSTED): EndpointState {
  return steps.reduce(
    (state, [at, what]) => (typeof what === 'string' ? afterConnect(state, what, at) : afterLook(state, what, at, at)),
    from,
  );
}

const TO_SILENT: readonly Step[] = [
  [0, UNANSWERED],
  [1_000, 'unanswered'],
];

/** 3 connections of which nothing has come back yet. */
const TO_DOUBTED: readonly Step[] = [
  [0, traffic(3, 3, 0)],
  [1_000, 'unanswered'],
];

function later(ms: number, steps: readonly Step[]): Step[] {
  return steps.map(([at, what]) => [ms + at, what]);
}

/** The state at a time until which each connect is unanswered. */
function unanswered(from: EndpointState, until: number): EndpointState {
  let state = from;
  while (state.kind === 'silent' && state.askAt + 1_000 <= until) {
    state = afterConnect(state, 'unanswered', state.askAt + 1_000);
  }
  return state;
}

/** How long an endpoint that does not answer stays silent, in ms. */
function silentFor(from: EndpointState): number {
  let state = from;
  let [since, now] = [0, 0];
  while (state.kind === 'silent') {
    [since, now] = [state.since, state.askAt + 1_000];
    state = afterConnect(state, 'unanswered', now);
  }
  return now - since;
}

describe('an endpoint', () => {
  test.each<readonly [string, readonly Step[], EndpointState['kind']]>([
    ['that answers is trusted', [[0, ANSWERED]], 'trusted'],
    ['without traffic is trusted', [[0, NO_STATS]], 'trusted'],
    ['whose clients got no packet is suspected', [[0, UNANSWERED]], 'suspected'],
    ['from which fewer packets came than connections have is suspected', [[0, traffic(9, 30, 26)]], 'suspected'],
    ['that answers neither clients nor this node is silent', TO_SILENT, 'silent'],
    [
      'of which routers say with each packet that it cannot be reached is suspected',
      [[0, traffic(3, 6, 6, 88)]],
      'suspected',
    ],
    ['of which routers say so over IPv6 is suspected', [[0, traffic(3, 6, 5, 108)]], 'suspected'],
    ['with as many packets of another size is trusted', [[0, traffic(2, 6, 6, 90)]], 'trusted'],
    ['with more packets than such errors is trusted', [[0, traffic(3, 12, 9, 88)]], 'trusted'],
    [
      'of which routers say so, cut to 576 bytes, about full packets is suspected',
      [[0, sized(6, 1_500, 5, 576)]],
      'suspected',
    ],
    [
      'of which routers say so, cut to 1,280 bytes, about full packets over IPv6 is suspected',
      [[0, sized(6, 1_500, 6, 1_280)]],
      'suspected',
    ],
    ['of which routers say so about packets of two sizes is suspected', [[0, sized(4, 780, 4, 332)]], 'suspected'],
    ['that confirms full packets is trusted', [[0, sized(9, 1_500, 6, 60)]], 'trusted'],
    ['with more packets of 576 bytes than came to it is trusted', [[0, sized(5, 1_500, 6, 576)]], 'trusted'],
    [
      'whose answers have the size of errors answers this node, and is trusted',
      [
        [0, sized(6, 100, 6, 128)],
        [10, 'answered'],
      ],
      'trusted',
    ],
    [
      'that cannot be reached is silent while routers say so',
      [
        [0, traffic(3, 6, 6, 88)],
        [1_000, 'unanswered'],
        [2_000, traffic(0, 3, 5, 88)],
      ],
      'silent',
    ],
    [
      'that refuses is trusted',
      [
        [0, UNANSWERED],
        [10, 'refused'],
      ],
      'trusted',
    ],
    [
      'to which this node has no link is trusted',
      [
        [0, UNANSWERED],
        [1_000, 'not-sent'],
      ],
      'trusted',
    ],
    [
      'is not silent before the kernel has summed up its counters again, if an answer may have been on its way',
      [...TO_DOUBTED, [1_999, NO_STATS]],
      'suspected',
    ],
    ['of which no answer was on its way is silent after that', [...TO_DOUBTED, [2_000, NO_STATS]], 'silent'],
    [
      'from which some packets came is silent when none has come in a whole period',
      [
        [0, traffic(9, 30, 20)],
        [1_000, 'unanswered'],
        [2_000, UNANSWERED],
      ],
      'silent',
    ],
    [
      'that only this node cannot reach answers its clients, and is trusted',
      [...TO_DOUBTED, [2_000, traffic(0, 2, 3)]],
      'trusted',
    ],
    [
      'that only this node cannot reach is trusted while others flood it with connections that it cannot answer',
      [
        [0, traffic(900, 900, 5)],
        [1_000, 'unanswered'],
        [2_000, traffic(900, 900, 5)],
      ],
      'trusted',
    ],
    [
      'that is silent stays so while errors about earlier packets come',
      [...TO_SILENT, [4_000, traffic(0, 0, 4, 88)]],
      'silent',
    ],
    [
      'that is silent stays so while many errors about earlier packets come, and few packets of the last connection',
      [...TO_SILENT, [2_000, traffic(1, 2, 9, 88)]],
      'silent',
    ],
    ['that is silent and answers is trusted', [...TO_SILENT, [4_000, 'answered']], 'trusted'],
    ['that is silent and refuses is trusted', [...TO_SILENT, [4_000, 'refused']], 'trusted'],
    ['whose open connections are answered is trusted', [...TO_SILENT, [4_000, traffic(0, 1, 1)]], 'trusted'],
    ['that is silent stays so', [...TO_SILENT, [4_000, 'unanswered'], [5_000, UNANSWERED]], 'silent'],
    ['loses its verdict when this node loses its link', [...TO_SILENT, [4_000, 'not-sent']], 'trusted'],
  ])('%s', (_what, steps, kind) => {
    expect(play(steps).kind).toBe(kind);
  });

  test('that answers connects but not its clients is asked less and less often, at last every 30 s', () => {
    let state: EndpointState = TRUSTED;
    const asked: number[] = [];
    for (let now = 0; now < 200_000; now += 500) {
      state = afterLook(state, UNANSWERED, now, now);
      if (state.kind !== 'suspected') continue;
      asked.push(now / 1_000);
      state = afterConnect(state, 'answered', now);
    }
    expect(asked).toEqual([0, 2, 6, 14, 30, 60, 90, 120, 150, 180]);
    // After an answer to a client, the next suspicion counts at once.
    state = play(
      [
        [200_000, ANSWERED],
        [232_000, UNANSWERED],
        [232_100, 'answered'],
      ],
      state,
    );
    expect(state).toMatchObject({ pauses: { none: { until: 234_100 } } });
  });

  test('whose connections always have few packets is asked less and less often, and suspected at once if it sends none', () => {
    let state: EndpointState = TRUSTED;
    const asked: number[] = [];
    for (let now = 0; now < 100_000; now += 500) {
      state = afterLook(state, traffic(3, 9, 6), now, now);
      if (state.kind !== 'suspected') continue;
      asked.push(now / 1_000);
      state = afterConnect(state, 'answered', now);
    }
    expect(asked).toEqual([0, 2, 6, 14, 30, 60, 90]);
    expect(play(later(100_000, TO_SILENT), state).kind).toBe('silent');
  });

  test('that is silent is asked after 2 s five times, and then less and less often, at last every 30 s', () => {
    let state = play(TO_SILENT);
    const waits: number[] = [];
    for (let i = 0; i < 11; i++) {
      const at = askAt(state);
      state = afterConnect(state, 'unanswered', at);
      waits.push((askAt(state) - at) / 1_000);
    }
    expect(waits).toEqual([2, 2, 2, 2, 2, 4, 8, 16, 30, 30, 30]);
  });

  test('that becomes silent again and again must answer more often each time, until ten minutes have passed', () => {
    let state: EndpointState = TRUSTED;
    const needed: number[] = [];
    for (const begin of [0, 60_000, 120_000, 180_000, 240_000, 900_000]) {
      state = play(later(begin, TO_SILENT), state);
      for (let answers = 1; ; answers++) {
        state = afterConnect(state, 'answered', begin + 2_000 + answers * 2_000);
        if (state.kind !== 'silent') {
          needed.push(answers);
          break;
        }
      }
    }
    expect(needed).toEqual([1, 3, 5, 7, 7, 1]);
  });

  test('must give its answers in a row', () => {
    const twice = play([...TO_SILENT, [4_000, 'answered'], ...later(60_000, TO_SILENT)]);
    const steps: Step[] = [
      [64_000, 'answered'],
      [66_000, 'answered'],
      [68_000, 'unanswered'],
      [70_000, 'answered'],
      [72_000, 'answered'],
    ];
    expect(play(steps, twice).kind).toBe('silent');
    expect(play([...steps, [74_000, 'answered']], twice).kind).toBe('trusted');
  });

  test('that an earlier run had found silent is asked at once, and trusted after one answer', () => {
    expect(askAt(restored(5))).toBe(5);
    expect(afterConnect(restored(5), 'answered', 6).kind).toBe('trusted');
  });

  test('that has weight 0 from an earlier run is used after some unanswered connects, unless packets to it have no answer', () => {
    expect(silentFor(restored(0))).toBeLessThan(25_000);
    expect(unanswered(restored(0), 600_000).kind).toBe('unknown');
    expect(silentFor(afterLook(restored(0), traffic(0, 1, 0), 2_000, 2_000))).toBeGreaterThan(299_000);
  });

  test('that has never answered this node is asked when it gets traffic, less and less often, and never judged', () => {
    expect(askAt(UNKNOWN)).toBe(Infinity);
    expect(askAt(afterLook(UNKNOWN, NO_STATS, 0, 0))).toBe(Infinity);
    let state: EndpointState = UNKNOWN;
    const asked: number[] = [];
    for (let now = 0; now < 1_500_000; now += 500) {
      state = afterLook(state, UNANSWERED, now, now);
      expect(state.kind).toBe('unknown');
      if (askAt(state) > now) continue;
      asked.push(now / 1_000);
      state = afterConnect(state, 'unanswered', now);
    }
    expect(asked).toEqual([0, 2, 6, 14, 30, 62, 126, 254, 510, 810, 1_110, 1_410]);
    expect(play(TO_SILENT, afterConnect(state, 'refused', -1)).kind).toBe('silent');
  });

  test('that has never answered this node is judged if most endpoints of its Service have, and nothing comes back from it', () => {
    const look = (state: EndpointState, what: Traffic, at: number) => afterLook(state, what, at, at, true);
    const asked = afterConnect(look(UNKNOWN, UNANSWERED, 0), 'unanswered', 1_000);
    const suspect = look(asked, UNANSWERED, 2_000);
    expect([asked.kind, suspect.kind]).toEqual(['unknown', 'suspected']);
    expect(afterConnect(suspect, 'unanswered', 3_000).kind).toBe('silent');
    const served = look(asked, ANSWERED, 2_000);
    expect(look(afterConnect(served, 'unanswered', 3_000), UNANSWERED, 4_000).kind).toBe('unknown');
    const notSent = look(afterConnect(look(UNKNOWN, UNANSWERED, 0), 'not-sent', 100), UNANSWERED, 3_000);
    expect(notSent.kind).toBe('unknown');
    // A NetworkPolicy closes it to nodes, and the first packets of a client were on their way.
    const closed = afterConnect(look(asked, traffic(1, 1, 0), 2_000), 'unanswered', 3_000);
    expect(look(closed, ANSWERED, 4_000).kind).toBe('unknown');
  });

  test('whose answers have the size of errors, and that a NetworkPolicy closes to nodes, is never judged', () => {
    const steps = Array.from({ length: 60 }, (_, at): Step => [at * 2_000, sized(6, 100, 6, 128)]);
    const asked = steps.flatMap((step): Step[] => [step, [step[0] + 1_000, 'unanswered']]);
    expect(play(asked, UNKNOWN).kind).toBe('unknown');
  });

  test('that this node does not know and cannot reach is asked again after 2 s, when it gets traffic', () => {
    const state = play(
      [
        [0, UNANSWERED],
        [100, 'not-sent'],
      ],
      UNKNOWN,
    );
    expect(askAt(state)).toBe(Infinity);
    expect(askAt(afterLook(state, UNANSWERED, 1_000, 1_000))).toBe(2_100);
  });

  test('that a NetworkPolicy closes to nodes gets its weight back, and is not judged again when it answers its clients', () => {
    // A client ended its connection with RST, and the policy is younger than the last answer to this node.
    const silent = play(TO_SILENT);
    expect(silentFor(silent)).toBeLessThan(340_000);
    const onTrial = unanswered(silent, 400_000);
    expect(onTrial.kind).toBe('trusted');
    const closed = play([[402_000, ANSWERED], [402_000, 'unanswered'], ...later(404_000, TO_SILENT)], onTrial);
    expect(closed.kind).toBe('unknown');
    expect(play([[500_000, 'answered'], ...later(502_000, TO_SILENT)], closed).kind).toBe('silent');
  });

  test('whose open connections are answered, but no connect from this node, is not judged until it answers this node', () => {
    const state = play([...TO_SILENT, [4_000, 'unanswered'], [5_000, traffic(0, 1, 1)]]);
    expect(state.kind).toBe('unknown');
    expect(askAt(state)).toBe(5_000);
  });

  test('that stays silent loses its verdict twice as late each time, at most half an hour, and is silent again after two connects', () => {
    let state = TRUSTED;
    const minutes: number[] = [];
    let now = 0;
    for (let verdicts = 0; verdicts < 5; verdicts++) {
      state = play(later(now, TO_SILENT), state);
      expect(state.kind).toBe('silent');
      const lasts = silentFor(state);
      minutes.push(Math.round(lasts / 60_000));
      now += 2_000 + lasts + 10_000;
      state = unanswered(state, now);
    }
    expect(minutes).toEqual([5, 10, 20, 30, 30]);
  });
});
