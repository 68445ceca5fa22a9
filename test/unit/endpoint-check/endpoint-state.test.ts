import { describe, expect, test } from '@jest/globals';
import {
  type ConnectResult,
  type EndpointState,
  NO_TRAFFIC,
  TRUSTED,
  type Traffic,
  afterConnect,
  afterLook,
  askAt,
  restored,
} from '../../../src/endpoint-check/endpoint-state.ts';

/** Packets of 60 bytes, unless those from the endpoint have another size. */
function traffic(connections: number, incomingPackets: number, outgoingPackets: number, size = 60): Traffic {
  const bytes = { incomingBytes: incomingPackets * 60, outgoingBytes: outgoingPackets * size };
  return { connections, incomingPackets, outgoingPackets, ...bytes };
}

/** 3 connections of which nothing came back. */
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
  [2_000, 'unanswered'],
  [2_000, UNANSWERED],
];

describe('an endpoint', () => {
  test.each<readonly [string, readonly Step[], EndpointState['kind']]>([
    ['that answers is trusted', [[0, ANSWERED]], 'trusted'],
    ['without traffic is trusted', [[0, NO_TRAFFIC]], 'trusted'],
    ['whose clients got no packet is suspected', [[0, UNANSWERED]], 'suspected'],
    ['from which fewer packets came than connections began is suspected', [[0, traffic(9, 20, 8)]], 'suspected'],
    ['that answers neither clients nor this node is silent', TO_SILENT, 'silent'],
    [
      'that answered one of two connects is trusted',
      [
        [0, UNANSWERED],
        [1_000, 'unanswered'],
        [1_100, 'answered'],
      ],
      'trusted',
    ],
    [
      'of which routers say with each packet that it cannot be reached is suspected',
      [[0, traffic(3, 6, 6, 88)]],
      'suspected',
    ],
    ['of which routers say so over IPv6 is suspected', [[0, traffic(3, 6, 5, 108)]], 'suspected'],
    ['with as many packets of another size is trusted', [[0, traffic(3, 6, 6, 90)]], 'trusted'],
    ['with more packets than such errors is trusted', [[0, traffic(3, 12, 9, 88)]], 'trusted'],
    [
      'that cannot be reached is silent while routers say so',
      [
        [0, traffic(3, 6, 6, 88)],
        [1_000, 'unanswered'],
        [2_000, 'unanswered'],
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
      'is not silent before the kernel has summed up its counters again: an answer may have been on its way',
      [...TO_SILENT.slice(0, 3), [1_999, NO_TRAFFIC]],
      'suspected',
    ],
    [
      'that only this node cannot reach answers its clients, and is trusted',
      [...TO_SILENT.slice(0, 3), [2_000, traffic(0, 2, 3)]],
      'trusted',
    ],
    [
      'that only this node cannot reach is trusted while others flood it with connections that it cannot answer',
      [
        [0, traffic(900, 900, 5)],
        [1_000, 'unanswered'],
        [2_000, 'unanswered'],
        [2_000, traffic(900, 900, 5)],
      ],
      'trusted',
    ],
    [
      'that is silent stays so while errors about earlier packets come',
      [...TO_SILENT, [4_000, traffic(0, 0, 4, 88)]],
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
    expect(state).toMatchObject({ suspectFrom: 234_100 });
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
      state = play(
        TO_SILENT.map(([at, what]): Step => [begin + at, what]),
        state,
      );
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
    const again = TO_SILENT.map(([at, what]): Step => [60_000 + at, what]);
    const twice = play([...TO_SILENT, [4_000, 'answered'], ...again]);
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
});
