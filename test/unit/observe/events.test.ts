import { describe, expect, test } from '@jest/globals';
import {
  type Delivery,
  type EventSink,
  type EventSubject,
  type EventText,
  Events,
  type OutgoingEvent,
} from '../../../src/observe/events.ts';
import { FakeClock, TestLog } from '../../support/reconciling.ts';

const NODE: EventSubject = { kind: 'Node', namespace: '', name: 'node-a' };
const STARTING: EventText = { type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: 'starting' };
const DONE: Delivery = { result: 'done' };

function web(name = 'web', namespace = 'default'): EventSubject {
  return { kind: 'Service', namespace, name };
}

function refused(note = 'port 30000 is taken'): EventText {
  return { type: 'Warning', reason: 'FailedToStartServiceHealthcheck', action: 'Listen', note };
}

function shared(note: string): EventText {
  return { ...refused(note), shared: true };
}

/** Responds with the given results in order, then with "done". */
class FakeSink implements EventSink {
  readonly sent: (readonly ['create' | 'update', OutgoingEvent])[] = [];
  readonly answers: Delivery[] = [];
  hang = false;

  create(event: OutgoingEvent): Promise<Delivery> {
    return this.#take('create', event);
  }

  update(event: OutgoingEvent): Promise<Delivery> {
    return this.#take('update', event);
  }

  async #take(how: 'create' | 'update', event: OutgoingEvent): Promise<Delivery> {
    this.sent.push([how, event]);
    if (this.hang) return await new Promise(() => {});
    return this.answers.shift() ?? DONE;
  }
}

class Bed {
  readonly sink = new FakeSink();
  readonly clock = new FakeClock();
  readonly log = new TestLog();
  readonly events: Events;

  constructor(random = 0) {
    this.events = new Events({ sink: this.sink, clock: this.clock, log: this.log, random: () => random });
  }

  /** Lets time pass in steps, and whatever is under way end. */
  async pass(ms: number, stepMs = ms): Promise<void> {
    for (let passed = 0; passed <= ms; passed += Math.max(1, stepMs)) {
      this.clock.advance(passed === 0 ? 0 : stepMs);
      for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  get counts(): string[] {
    return this.sink.sent.map(([how, { text, count }]) => `${how} ${text.reason} x${count}`);
  }
}

describe('Events', () => {
  test('the first Event is sent immediately, with times and a name that contains the object', async () => {
    const bed = new Bed();
    const now = bed.clock.wallNow();
    bed.events.record(NODE, STARTING);
    expect(bed.sink.sent).toEqual([]);
    await bed.pass(0);
    expect(bed.sink.sent).toEqual([
      [
        'create',
        {
          name: expect.stringMatching(/^node-a\.[0-9a-f]+$/),
          subject: NODE,
          text: STARTING,
          firstAt: now,
          lastAt: now,
          count: 1,
        },
      ],
    ]);
  });

  test('repeated Events become one series, updated at most every five minutes with the newest note', async () => {
    const bed = new Bed();
    bed.events.record(web(), refused('first'));
    await bed.pass(0);
    for (let i = 0; i < 9; i++) bed.events.record(web(), refused(`again ${i}`));
    await bed.pass(299_000);
    expect(bed.counts).toEqual(['create FailedToStartServiceHealthcheck x1']);
    await bed.pass(1_000);
    expect(bed.counts.slice(1)).toEqual(['update FailedToStartServiceHealthcheck x10']);
    expect(bed.sink.sent[1]?.[1]).toMatchObject({ name: bed.sink.sent[0]?.[1].name, text: { note: 'again 8' } });
    await bed.pass(3_000_000, 300_000);
    expect(bed.counts).toHaveLength(2);
  });

  test('other objects, reasons and types are separate Events', async () => {
    const bed = new Bed();
    bed.events.record(NODE, STARTING);
    bed.events.record(NODE, { ...STARTING, type: 'Warning' });
    bed.events.record(web(), refused());
    bed.events.record(web('api'), refused());
    await bed.pass(3, 1);
    expect(new Set(bed.sink.sent.map(([, { name }]) => name)).size).toBe(4);
  });

  test('an Event that has expired on the server is created again', async () => {
    const bed = new Bed();
    bed.events.record(web(), refused());
    await bed.pass(0);
    bed.sink.answers.push({ result: 'gone' });
    bed.events.record(web(), refused());
    await bed.pass(300_000);
    await bed.pass(0);
    expect(bed.counts.map((line) => line.split(' ')[0])).toEqual(['create', 'update', 'create']);
    expect(bed.sink.sent[2]?.[1].name).not.toBe(bed.sink.sent[0]?.[1].name);
  });

  test('while the API server is away, an Event is tried five times with growing delays, then dropped with one log line', async () => {
    const bed = new Bed();
    const away: Delivery = { result: 'later' };
    bed.sink.answers.push(away, away, away, away, away);
    const at: number[] = [];
    bed.events.record(NODE, STARTING);
    for (let second = 0; second <= 60; second++) {
      const before = bed.sink.sent.length;
      await bed.pass(second === 0 ? 0 : 1_000, 1_000);
      if (bed.sink.sent.length > before) at.push(second);
    }
    expect(at).toEqual([0, 1, 3, 7, 15]);
    expect(bed.log.lines).toEqual([
      'warn: failed to write an Event to the API server, dropped it: the API server was unavailable or busy in 5 attempts',
    ]);
    bed.events.record(NODE, STARTING);
    await bed.pass(20_000);
    expect(bed.sink.sent).toHaveLength(6);
  });

  test('a refused Event is dropped immediately; the same refusal is logged once', async () => {
    const bed = new Bed();
    const never: Delivery = { result: 'never', reason: 'the API server answers 403: no' };
    bed.sink.answers.push(never, never);
    bed.events.record(NODE, STARTING);
    bed.events.record(web(), refused());
    await bed.pass(0);
    await bed.pass(60_000);
    expect(bed.sink.sent).toHaveLength(2);
    expect(bed.log.lines.map((line) => line.split(':')[0])).toEqual(['warn', 'debug']);
  });

  test('at most 25 Events are sent at once, then one in ten seconds; at most 200 wait, and further ones are dropped', async () => {
    const bed = new Bed();
    for (let i = 0; i < 300; i++) bed.events.record(web(`s${i}`, `team-${i % 20}`), refused());
    for (let i = 0; i < 60; i++) await bed.pass(0);
    expect(bed.sink.sent).toHaveLength(25);
    await bed.pass(60_000, 10_000);
    expect(bed.sink.sent).toHaveLength(31);
    await bed.pass(3_000_000, 10_000);
    expect(bed.sink.sent).toHaveLength(200);
    expect(bed.log.lines.filter((line) => line.includes('too many different events'))).toHaveLength(100);
  });

  test('one namespace has at most 20 Events in an hour, so that it neither displaces nor delays those of others', async () => {
    const bed = new Bed();
    // Each has another text, as that of a Service whose annotation changes all the time.
    for (let i = 0; i < 5_000; i++) bed.events.record(web('web', 'tenant'), refused(`bad value ${i}`));
    for (let i = 0; i < 5_000; i++) bed.events.record(web(`s${i}`, 'tenant'), refused());
    for (let i = 0; i < 5_000; i++) bed.events.record(web('all', 'tenant'), shared('x'.repeat(i)));
    bed.events.record(web('web', 'other'), refused());
    bed.events.record(NODE, STARTING);
    for (let i = 0; i < 60; i++) await bed.pass(0);
    const namespaces = bed.sink.sent.map(([, { subject }]) => subject.namespace);
    expect(namespaces.filter((namespace) => namespace !== 'tenant')).toEqual(['other', '']);
    expect(namespaces.length).toBeLessThanOrEqual(22);
    await bed.pass(3_000_000, 10_000);
    expect(bed.sink.sent.filter(([how]) => how === 'create').length).toBeLessThanOrEqual(22);
    await bed.pass(3_600_000, 600_000);
    bed.events.record(web('late', 'tenant'), refused());
    await bed.pass(0);
    expect(bed.sink.sent.at(-1)?.[1].subject.name).toBe('late');
  });

  test('an Event that all nodes would send has one name, waits half a minute and up to one more, and is not counted', async () => {
    const names: string[] = [];
    for (const random of [0.5, 0.9]) {
      const bed = new Bed(random);
      bed.events.record(web(), shared('2 of 3'));
      bed.events.record(web(), shared(`${random * 10} of 3`));
      await bed.pass(30_000 + random * 60_000 - 1);
      expect(bed.sink.sent).toEqual([]);
      await bed.pass(1);
      await bed.pass(3_000_000, 600_000);
      bed.events.record(web(), shared('2 of 3'));
      await bed.pass(100_000);
      expect(bed.counts).toEqual(['create FailedToStartServiceHealthcheck x1']);
      names.push(bed.sink.sent[0]?.[1].name ?? '');
    }
    expect(names[0]).toMatch(/^web\.[0-9a-f]{16}$/);
    expect(names[1]).toBe(names[0]);
  });

  test('a shared Event with another text is another one, and one that occurs after an hour is created again', async () => {
    const bed = new Bed();
    for (const note of ['one', 'two']) bed.events.record(web(), shared(note));
    await bed.pass(30_000);
    await bed.pass(0);
    expect(new Set(bed.sink.sent.map(([, { name }]) => name)).size).toBe(2);
    await bed.pass(3_600_000, 600_000);
    expect(bed.sink.sent).toHaveLength(2);
    bed.events.record(web(), shared('one'));
    await bed.pass(30_000);
    expect(bed.sink.sent).toHaveLength(3);
    expect(bed.sink.sent[2]?.[1].name).toBe(bed.sink.sent[0]?.[1].name);
  });

  test('an Event that is withdrawn before it was sent is not sent', async () => {
    const bed = new Bed();
    const reasons = new Set([refused().reason]);
    for (const name of ['web', 'api']) bed.events.record(web(name), shared('one'));
    await bed.pass(29_999);
    bed.events.withdraw(web(), reasons);
    await bed.pass(1);
    expect(bed.sink.sent.map(([, { subject }]) => subject.name)).toEqual(['api']);
    // After it was sent, it remains: the same Event within the hour would be refused.
    bed.events.withdraw(web('api'), reasons);
    bed.events.record(web('api'), shared('one'));
    await bed.pass(100_000);
    expect(bed.sink.sent).toHaveLength(1);
    bed.events.record(web(), shared('one'));
    await bed.pass(30_000);
    expect(bed.sink.sent).toHaveLength(2);
  });

  test('names of Events never exceed the length that the API accepts', async () => {
    const bed = new Bed();
    bed.events.record({ ...NODE, name: 'n'.repeat(253) }, STARTING);
    await bed.pass(0);
    expect(bed.sink.sent[0]?.[1].name).toMatch(/^n+\.[0-9a-f]+$/);
    expect(bed.sink.sent[0]?.[1].name.length).toBeLessThanOrEqual(253);
  });

  test('closing sends pending Events; later ones are not accepted', async () => {
    const bed = new Bed(1);
    bed.events.record(NODE, STARTING);
    bed.events.record(web(), { ...refused(), shared: true });
    const closed = bed.events.close(2_000);
    bed.events.record(web('late'), refused());
    await bed.pass(0);
    await bed.pass(0);
    await closed;
    expect(bed.counts.sort()).toEqual(['create FailedToStartServiceHealthcheck x1', 'create Starting x1']);
    expect(bed.clock.nextIn).toBeUndefined();
  });

  test('closing waits for an unresponsive API server only until its time limit', async () => {
    const bed = new Bed();
    bed.sink.hang = true;
    bed.events.record(NODE, STARTING);
    await bed.pass(0);
    let closed = false;
    void bed.events.close(2_000).then(() => (closed = true));
    await bed.pass(1_999);
    expect(closed).toBe(false);
    await bed.pass(1);
    expect(closed).toBe(true);
    expect(bed.clock.nextIn).toBeUndefined();
  });
});
