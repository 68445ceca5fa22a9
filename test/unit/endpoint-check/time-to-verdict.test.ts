import { expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { EndpointCheck, type Question } from '../../../src/endpoint-check/endpoint-check.ts';
import { COUNTED_EVERY_MS } from '../../../src/endpoint-check/endpoint-state.ts';
import { LookTiming } from '../../../src/endpoint-check/look-timing.ts';
import { NOTHING } from '../../../src/endpoint-check/traffic-since.ts';
import { realServerKey } from '../../../src/state/real-server.ts';
import { address, portOf } from '../../support/state.ts';

const WEB = namespacedName('shop', 'web');
const KEY = realServerKey({ address: address('10.0.0.1'), port: portOf(80) });
const STEP_MS = 20;
/** Packets of a connection with one small request: 5 to the endpoint, 4 back. */
const [TO, BACK] = [5, 4];
const CONNECT_MS = 1_000;
const BEFORE_MS = 16_000;

/**
 * One node: a client of an endpoint that dies. Returns the time from that to the verdict.
 *
 * @param everyMs time between two connections
 * @param sumsAt when the kernel sums up its counters, in its period
 * @param diesAt after BEFORE_MS
 */
function timeToVerdict(everyMs: number, sumsAt: number, diesAt: number): number {
  const check = new EndpointCheck();
  const timing = new LookTiming();
  const live = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
  let [summed, read] = [{ ...live }, { ...live }];
  let lookAt = 700;
  const asked: { readonly question: Question; readonly endsAt: number }[] = [];
  const death = BEFORE_MS + diesAt;
  check.setEndpoints(WEB, new Set([KEY]), 0);
  for (let now = 0; now < death + 20_000; now += STEP_MS) {
    const isDead = now >= death;
    if (now % everyMs === 0) {
      live.connections += 1;
      live.incomingPackets += isDead ? 1 : TO;
      live.outgoingPackets += isDead ? 0 : BACK;
    }
    // The SYN of a connection without answer is repeated after a second.
    if (now % everyMs === 1_000 % everyMs && now - 1_000 >= death) live.incomingPackets += 1;
    if (now % COUNTED_EVERY_MS === sumsAt) summed = { ...live };
    for (const question of check.takeDue(now)) {
      if (isDead) asked.push({ question, endsAt: now + CONNECT_MS });
      else check.connected(question, 'answered', now);
    }
    while (asked[0] !== undefined && asked[0].endsAt <= now) {
      const { question } = asked.shift()!;
      if (check.connected(question, 'unanswered', now).length > 0) return now - death;
      if (check.awaitsLook(question)) lookAt = Math.min(lookAt, now);
    }
    if (now < lookAt) continue;
    const grown = { ...summed };
    for (const counter of Object.keys(grown) as (keyof typeof grown)[]) grown[counter] -= read[counter];
    const grew = grown.incomingPackets > 0;
    read = summed;
    const traffic = new Map(grew ? [[WEB, new Map([[KEY, grown]])]] : []);
    if (check.looked({ ...NOTHING, traffic }, now, now).length > 0) return now - death;
    const [question] = asked.length === 0 ? [{ service: WEB, key: KEY }] : [];
    lookAt = now + (question !== undefined && check.awaitsLook(question) ? 500 : timing.next(grew));
  }
  throw new Error('no verdict');
}

test('a client leaves an endpoint within 3.5 s of its death in the median and 4.2 s at most, on twenty nodes', () => {
  const times: number[] = [];
  for (const everyMs of [100, 500, 1_000]) {
    for (let node = 0; node < 20; node++) {
      const sumsAt = ((node * 7) % 100) * STEP_MS;
      for (let event = 0; event < 5; event++)
        times.push(timeToVerdict(everyMs, sumsAt, event * 400 + (node % 20) * STEP_MS));
    }
  }
  times.sort((a, b) => a - b);
  expect(times[times.length / 2]).toBeLessThan(3_500);
  expect(times.at(-1)).toBeLessThanOrEqual(4_200);
});
