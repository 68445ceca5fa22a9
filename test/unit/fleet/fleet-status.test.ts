import { rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mergeStatus } from '../../../src/fleet/facts/merge-status.ts';
import { statusFacts } from '../../../src/fleet/facts/status-facts.ts';
import type { FleetStatusReply } from '../../../src/fleet/fleet-replies.ts';
import { statusOf } from '../../support/fleet-status.ts';
import { runFleet } from '../../support/run-fleet.ts';
import { RecordedCluster, type RecordedPod } from '../../support/recorded-cluster.ts';

function nodesOf(count: number, special: Readonly<Record<string, RecordedPod>> = {}): Map<string, RecordedPod> {
  const names = Array.from({ length: count }, (_, at) => `node-${String(at).padStart(3, '0')}`);
  return new Map(names.map((name) => [name, special[name] ?? { replies: { status: statusOf(name) } }]));
}

/** A daemon of before the hash of the configuration. */
function older(node: string): object {
  const { configuration: _, leftOfOtherModes: __, ...status } = statusOf(node, { version: '0.1.0' });
  return status;
}

const refused = { count: 2, first: [{ command: 'ipvsadm -A -t 10.96.0.1:443', why: 'ENOENT', attempts: 3 }] };

describe('fleet status', () => {
  test('of 300 nodes, names those that differ or do not answer, each with the reason, and waits for none longer than its time', async () => {
    using _ = new RecordedCluster(
      nodesOf(300, {
        'node-003': { replies: { status: statusOf('node-003') }, sleep: 30 },
        'node-017': { replies: { status: older('node-017') } },
        'node-018': {
          replies: { status: statusOf('node-018', { ok: false, verdict: 'not well', refused }) },
          statuses: { status: 1 },
          errors: { status: 'command terminated with exit code 1\n' },
        },
        'node-019': { replies: { status: statusOf('node-019', { mode: 'nftables', configuration: 'bbbbbbbbbbbb' }) } },
        'node-100': { replies: { status: '\u0000 no JSON {' } },
        'node-101': {
          replies: { status: { apiVersion: 'kube-ipvs-proxy/v1', kind: 'Status', refused: { first: 7 } } },
        },
        'node-200': {
          statuses: { status: 1 },
          errors: { status: 'error: unable to upgrade connection: pod not found\n' },
        },
        'node-201': { waits: 'CrashLoopBackOff' },
        'node-202': {
          statuses: { status: 2 },
          errors: { status: 'kube-ipvs-proxy: the daemon is still starting\ncommand terminated with exit code 2\n' },
        },
      }),
      ['node-000', 'node-900'],
    );
    const began = performance.now();
    const { code, out } = await runFleet('status', '--timeout=2', '-o', 'json');
    // One of them would answer after 30 s.
    expect(performance.now() - began).toBeLessThan(30_000);
    const reply = JSON.parse(out) as FleetStatusReply;
    expect({ code, verdict: reply.verdict, answered: reply.answered }).toEqual({
      code: 1,
      verdict: '300 nodes: 6 do not answer, 3 differ from the others or are not as wanted, 291 alike',
      answered: 294,
    });
    expect(reply.differing).toEqual([
      { node: 'node-017', differences: ['version 0.1.0, commit 0123456789ab (most: 0.2.0, commit 0123456789ab)'] },
      { node: 'node-018', differences: ['2 operations refused: ipvsadm -A -t 10.96.0.1:443: ENOENT'] },
      {
        node: 'node-019',
        differences: ['mode nftables (most: ipvs)', 'configuration bbbbbbbbbbbb (most: aaaaaaaaaaaa)'],
      },
    ]);
    expect(reply.silent.map(({ node, why }) => `${node} ${why}`)).toEqual([
      'node-003 no answer within 2 s',
      'node-100 what it prints is no reply to this question',
      expect.stringMatching(/^node-101 /),
      'node-200 unable to upgrade connection: pod not found',
      'node-201 Pod proxy-node-201 does not run: CrashLoopBackOff',
      'node-202 the daemon is still starting',
    ]);
    expect(reply.withoutPod).toEqual(['node-900']);
  });

  test('a node that prints too much has not answered', async () => {
    const much = `[${'{},'.repeat(6 * 1024 * 1024)}`;
    using _ = new RecordedCluster(nodesOf(2, { 'node-001': { replies: { status: much } } }));
    const { out } = await runFleet('status', '-o', 'json');
    expect(JSON.parse(out)).toMatchObject({
      answered: 1,
      silent: [{ node: 'node-001', why: 'kubectl printed more than 16777216 bytes and was killed' }],
    });
  });

  test('JSON has no characters that alter a terminal', async () => {
    const verdict = 'a\u007F\u009B\u202Eb';
    using _ = new RecordedCluster(
      nodesOf(1, { 'node-000': { replies: { status: statusOf('', { ok: false, verdict }) } } }),
    );
    const { out } = await runFleet('status', '-o', 'json');
    expect(out).toContain(String.raw`a\u007f\u009b\u202eb`);
    expect(JSON.parse(out)).toMatchObject({ differing: [{ differences: [verdict] }] });
  });

  test('in text, has one line for each node that differs, and counts the rest', async () => {
    using _ = new RecordedCluster(
      nodesOf(4, { 'node-002': { replies: { status: statusOf('node-002', { scheduler: 'rr' }) } } }),
    );
    const { code, out } = await runFleet('status');
    expect(code).toBe(1);
    expect(out).toMatch(
      /^4 nodes: 1 differs from the others or is not as wanted, 3 alike\n\ndiffer:\n {2}node-002 {2}scheduler rr \(most: lc\)\n/,
    );
    expect(out).toMatch(/\n {2}scheduler {2,}lc \(3\), rr \(1\)\n/);
  });

  test('is as wanted if all nodes are alike', async () => {
    using _ = new RecordedCluster(nodesOf(2));
    expect(await runFleet('status')).toMatchObject({ code: 0, err: '' });
  });

  test('Ctrl-C ends what is being asked, and what has answered is printed', async () => {
    const slow = ['node-001', 'node-002'].map((name): [string, RecordedPod] => [name, { sleep: 30 }]);
    using _ = new RecordedCluster(nodesOf(4, Object.fromEntries(slow)));
    const began = performance.now();
    const listeners = process.listenerCount('SIGINT');
    const asked = runFleet('status', '--parallel=2', '-o', 'json');
    setTimeout(() => process.emit('SIGINT'), 1_000);
    const { code, out } = await asked;
    expect(performance.now() - began).toBeLessThan(30_000);
    const { answered, silent } = JSON.parse(out) as FleetStatusReply;
    expect({ code, answered, silent: silent.map(({ node, why }) => `${node} ${why}`) }).toEqual({
      code: 1,
      answered: 1,
      silent: ['node-001', 'node-002', 'node-003'].map((node) => `${node} interrupted before it answered`),
    });
    expect(process.listenerCount('SIGINT')).toBe(listeners);
  });

  test('asks the nodes that are named, and names those without a Pod', async () => {
    using _ = new RecordedCluster(nodesOf(3));
    const { code, out } = await runFleet('status', '--nodes=node-001,nowhere', '-o', 'json');
    expect({ code, reply: JSON.parse(out) as unknown }).toMatchObject({
      code: 1,
      reply: { asked: 2, silent: [{ node: 'nowhere', why: 'it has no Pod of kube-ipvs-proxy' }] },
    });
  });

  test('without a Pod, nothing is as wanted', async () => {
    using _ = new RecordedCluster(new Map(), ['node-000']);
    expect(await runFleet('status')).toMatchObject({
      code: 1,
      out: expect.stringContaining('no Pod of kube-ipvs-proxy is found'),
    });
  });

  test.each([
    [[], /fleet needs a subcommand/],
    [['stat'], /unknown command 'stat' \(Did you mean status\?\)/],
    [['status', '--nodes=a', '--all-nodes'], /--all-nodes and --nodes exclude each other/],
    [['status', '--timeout=0'], /--timeout: want a whole number from 1 to 600, got "0"/],
  ])('%j is no question', async (argv, sentence) => {
    expect(await runFleet(...argv)).toEqual({ code: 2, out: '', err: expect.stringMatching(sentence) });
  });

  test('what kubectl cannot read is its sentence', async () => {
    using cluster = new RecordedCluster(new Map());
    rmSync(path.join(cluster.folder, 'pods.json'));
    const { code, err } = await runFleet('status');
    expect({ code, err }).toEqual({
      code: 2,
      err: expect.stringMatching(/^kube-ipvs-proxy: kubectl get pods: cat: .*pods\.json/),
    });
  });
});

describe('what a status says of a node', () => {
  const reasonsOf = (...changes: Parameters<typeof statusOf>[1][]): readonly string[] => {
    const facts = changes.map((change, at) => statusFacts(`node-${at}`, statusOf(`node-${at}`, change)));
    return mergeStatus(facts, [], []).differing.flatMap(({ node, differences }) => `${node} ${differences.join('; ')}`);
  };

  test.each([
    [{ health: { healthy: false, reason: 'no sync for 80 s', problems: [] } }, 'not healthy: no sync for 80 s'],
    [{ watches: { services: 'retrying' } }, 'watch of services retrying since 2026-11-27T03:00:00.000Z'],
    [{ settings: ['sysctl -w a=1'] }, '1 setting not as wanted: sysctl -w a=1'],
    [
      { repairs: { count: 9, first: [{ at: 'now', command: 'ip addr add' }] } },
      'drift: 9 repairs within the last hour, such as ip addr add',
    ],
    [{ ok: false, verdict: 'something else' }, 'something else'],
    [{ uptimeSeconds: 4400 }, 'last sync 800 s ago (most: 10 s or less)'],
    [
      {
        syncs: { running: false, full: { endedAt: '2026-11-27T04:00:00.000Z', seconds: 1, ok: false, error: 'EPERM' } },
      },
      'last sync failed: EPERM',
    ],
  ])('%j', (change, reason) => {
    expect(reasonsOf({}, change, {}, {})).toEqual([`node-1 ${reason}`]);
  });

  test('of two nodes, the one that lags is named', () => {
    const facts = [{}, { uptimeSeconds: 90_000 }].map((change, at) =>
      statusFacts(`node-${at}`, statusOf(`node-${at}`, change)),
    );
    expect(mergeStatus(facts, [], []).differing).toEqual([
      { node: 'node-1', differences: ['last sync 86400 s ago (most: 10 s or less)'] },
    ]);
  });

  test('without a daemon, there is nothing to compare', () => {
    const facts = statusFacts('node-9', { kind: 'KernelStatus', ok: false, verdict: 'no daemon runs on node node-9' });
    expect(mergeStatus([facts], [], []).differing).toEqual([
      { node: 'node-9', differences: ['no daemon answers: no daemon runs on node node-9'] },
    ]);
  });

  test('the order of the answers does not matter', () => {
    const change = fc.record({
      version: fc.constantFrom('0.1.0', '0.2.0'),
      mode: fc.constantFrom('ipvs' as const, 'nftables' as const),
      uptimeSeconds: fc.constantFrom(3600, 3610, 5000),
      settings: fc.constantFrom([], ['sysctl -w a=1']),
    });
    const shuffled = fc
      .array(change, { maxLength: 8 })
      .chain((changes) =>
        fc.tuple(fc.constant(changes), fc.shuffledSubarray([...changes.keys()], { minLength: changes.length })),
      );
    fc.assert(
      fc.property(shuffled, ([changes, order]) => {
        const facts = changes.map((each, at) => statusFacts(`node-${at}`, statusOf(`node-${at}`, each)));
        const silent = changes.map((_, at) => ({ node: `silent-${at}`, why: 'gone' }));
        const pick = <T>(items: readonly T[]): T[] => order.flatMap((at) => items[at] ?? []);
        expect(mergeStatus(pick(facts), pick(silent), [])).toEqual(mergeStatus(facts, silent, []));
      }),
    );
  });
});
