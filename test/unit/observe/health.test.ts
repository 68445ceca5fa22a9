import { describe, expect, test } from '@jest/globals';
import { type HealthClock, ProxyHealth } from '../../../src/observe/health.ts';

const S = 1000;
const T0 = Date.UTC(2026, 10, 21, 12, 0, 0);

type Step =
  readonly ['started' | 'queued' | 'synced', number] | readonly ['node', { deleting: boolean; taintKeys: string[] }];

/** Seconds after T0, by both clocks, of which the monotonic one began at 7,777. */
function at(seconds: number, wallSeconds = seconds): HealthClock {
  return { now: () => 7_777 + seconds * S, wallNow: () => T0 + wallSeconds * S };
}

const GOOD: Step = ['node', { deleting: false, taintKeys: ['other'] }];

/** Times are seconds; stale after 60. */
const TABLE: readonly (readonly [what: string, steps: readonly Step[], at: number, livez: number, healthz: number])[] =
  [
    ['nothing has happened', [], 0, 200, 503],
    ['a good node, nothing started', [GOOD], 0, 200, 200],
    ['started', [GOOD, ['started', 0]], 1000, 200, 200],
    ['nothing queued for long after a success', [GOOD, ['started', 0], ['synced', 1]], 9999, 200, 200],
    ['queued, a moment ago', [GOOD, ['started', 0], ['queued', 10]], 69, 200, 200],
    ['queued, just long enough ago', [GOOD, ['started', 0], ['queued', 10]], 70, 503, 503],
    ['the oldest of several counts', [GOOD, ['started', 0], ['queued', 10], ['queued', 60]], 70, 503, 503],
    ['queued and done', [GOOD, ['started', 0], ['queued', 10], ['synced', 11]], 500, 200, 200],
    [
      'done, and queued again long ago',
      [GOOD, ['started', 0], ['queued', 10], ['synced', 11], ['queued', 20]],
      80,
      503,
      503,
    ],
    ['done late', [GOOD, ['started', 0], ['queued', 10], ['synced', 200]], 201, 200, 200],
    ['queued before its start', [GOOD, ['queued', 0]], 500, 200, 200],
    ['no node seen', [['started', 0]], 1, 200, 503],
    [
      'the node is being deleted',
      [
        ['started', 0],
        ['node', { deleting: true, taintKeys: [] }],
      ],
      1,
      200,
      503,
    ],
    [
      'the autoscaler will remove the node',
      [
        ['started', 0],
        ['node', { deleting: false, taintKeys: ['a', 'ToBeDeletedByClusterAutoscaler'] }],
      ],
      1,
      200,
      503,
    ],
    [
      'the autoscaler thought again',
      [['started', 0], ['node', { deleting: false, taintKeys: ['ToBeDeletedByClusterAutoscaler'] }], GOOD],
      1,
      200,
      200,
    ],
    [
      'a longer taint is another one',
      [['node', { deleting: false, taintKeys: ['ToBeDeletedByClusterAutoscaler2'] }]],
      1,
      200,
      200,
    ],
  ];

function build(steps: readonly Step[]): ProxyHealth {
  const health = new ProxyHealth(60 * S, 'node-a');
  for (const step of steps) {
    if (step[0] === 'node') health.nodeSeen(step[1]);
    else if (step[0] === 'started') health.started([4, 6], at(step[1]).now());
    else health[step[0]](at(step[1]).now());
  }
  return health;
}

describe('who is healthy', () => {
  test.each(TABLE)('%s', (_what, steps, seconds, livez, healthz) => {
    const health = build(steps);
    const clock = at(seconds);
    expect([health.livez(clock).status, health.healthz(clock).status]).toEqual([livez, healthz]);
    expect(health.healthy(clock.now())).toBe(livez === 200);
  });
});

describe('bodies', () => {
  test('well: lastUpdated is now', () => {
    const health = build([GOOD, ['started', 0], ['synced', 2]]);
    expect(health.healthz(at(9.5)).body).toBe(
      '{"lastUpdated":"2026-11-21T12:00:09.500Z","currentTime":"2026-11-21T12:00:09.500Z","nodeEligible":true,"healthy":true,' +
        '"status":{"IPv4":{"lastUpdated":"2026-11-21T12:00:02.000Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-21T12:00:02.000Z","healthy":true}}}',
    );
  });

  test('not well: lastUpdated is the last success', () => {
    const health = build([
      ['started', 0],
      ['synced', 3],
      ['queued', 4],
    ]);
    expect(health.livez(at(70)).body).toBe(
      '{"lastUpdated":"2026-11-21T12:00:03.000Z","currentTime":"2026-11-21T12:01:10.000Z","healthy":false,' +
        '"status":{"IPv4":{"lastUpdated":"2026-11-21T12:00:03.000Z","healthy":false},"IPv6":{"lastUpdated":"2026-11-21T12:00:03.000Z","healthy":false}},' +
        '"reason":"no sync of IPv4 and IPv6 has succeeded for 60 s: the log says why"}',
    );
  });

  test('not well: the reason is the last failure, until a sync succeeds', () => {
    const health = build([
      ['started', 0],
      ['queued', 4],
    ]);
    health.failed('the kernel module ip_vs is not loaded');
    expect(health.livez(at(70)).body).toContain(
      '"reason":"no sync of IPv4 and IPv6 has succeeded for 60 s: the kernel module ip_vs is not loaded"',
    );
    health.synced(at(71).now());
    health.queued(at(72).now());
    expect(health.livez(at(140)).body).toContain('has succeeded for 60 s: the log says why"');
  });

  test('a node that lacks something is not healthy at once, says why, and a restart cannot help', () => {
    const health = build([GOOD, ['started', 0], ['queued', 4]]);
    health.failed('the kernel module ip_vs is not loaded', true);
    expect(health.healthy(at(5).now())).toBe(false);
    expect(health.healthz(at(5))).toMatchObject({
      status: 503,
      body: expect.stringContaining('"reason":"the kernel module ip_vs is not loaded"'),
    });
    expect(health.livez(at(500)).status).toBe(200);
    health.synced(at(501).now());
    expect([health.healthz(at(501)).status, health.healthy(at(501).now())]).toEqual([200, true]);
  });

  test('after another failure, a restart may help', () => {
    const health = build([GOOD, ['started', 0], ['queued', 4]]);
    health.failed('the kernel module ip_vs is not loaded', true);
    health.failed('ENOMEM');
    expect([health.livez(at(5)).status, health.healthz(at(5)).status, health.livez(at(70)).status]).toEqual([
      200, 200, 503,
    ]);
  });

  test('a long failure is cut', () => {
    const health = build([
      ['started', 0],
      ['queued', 4],
    ]);
    health.failed('x'.repeat(1000));
    const { reason } = JSON.parse(health.livez(at(70)).body) as { reason: string };
    expect(reason).toMatch(/: x{400}\.\.\.$/);
  });

  test('a wall clock that was set back by five hours: the age of the last success is what it is', () => {
    const health = build([
      ['started', 0],
      ['synced', 3],
      ['queued', 4],
    ]);
    const { status, body } = health.livez(at(70, 70 - 5 * 3600));
    expect(status).toBe(503);
    expect(body).toContain('"lastUpdated":"2026-11-21T07:00:03.000Z","currentTime":"2026-11-21T07:01:10.000Z"');
  });

  test('healthy is the proxy, whatever the node is', () => {
    const body = JSON.parse(build([['started', 0]]).healthz(at(0)).body) as object;
    expect(body).toMatchObject({ lastUpdated: '2026-11-21T12:00:00.000Z', nodeEligible: false, healthy: true });
  });

  test.each<[string, Step[], number, string | undefined]>([
    ['nothing', [GOOD, ['started', 0]], 1, undefined],
    ['no Node', [['started', 0]], 1, 'no Node named "node-a" has been seen: check --hostname-override'],
    ['a Node that goes', [['node', { deleting: true, taintKeys: [] }]], 1, 'our Node "node-a" is being deleted'],
    [
      'the autoscaler',
      [['node', { deleting: false, taintKeys: ['ToBeDeletedByClusterAutoscaler'] }]],
      1,
      'our Node "node-a" has the taint ToBeDeletedByClusterAutoscaler',
    ],
    [
      'both',
      [
        ['started', 0],
        ['queued', 0],
      ],
      60,
      'no sync of IPv4 and IPv6 has succeeded for 60 s: the log says why; no Node named "node-a" has been seen: check --hostname-override',
    ],
  ])('an answer of 503 gives the reason: %s', (_what, steps, seconds, reason) => {
    const { status, body } = build(steps).healthz(at(seconds));
    expect([status, (JSON.parse(body) as { reason?: string }).reason]).toEqual([
      reason === undefined ? 200 : 503,
      reason,
    ]);
  });

  test('before anything: the zero time of Go', () => {
    const body = JSON.parse(build([]).healthz(at(0)).body) as object;
    expect(body).toMatchObject({ lastUpdated: '0001-01-01T00:00:00Z', status: {} });
  });
});
