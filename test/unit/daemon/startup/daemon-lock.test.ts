import { randomUUID } from 'node:crypto';
import { createConnection, createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { requireNoDaemon } from '../../../../src/daemon/clean-up.ts';
import { type DaemonLock, holdDaemonLock, runningDaemon } from '../../../../src/daemon/startup/daemon-lock.ts';
import { TestLog } from '../../../support/reconciling.ts';

describe('the lock of a daemon', () => {
  let name: string;
  let log: TestLog;
  const releases: (() => void)[] = [];
  const hold = async (node: string, mode = 'ipvs', takeOver = false): Promise<DaemonLock> => {
    const lock = await holdDaemonLock({ node, mode, version: 'v1' }, log, { name, retryMs: 20, takeOver });
    releases.push(lock.release);
    return lock;
  };
  const described = (node: string): string => `node ${node}, process ${process.pid}, mode ipvs, version v1`;

  beforeEach(() => {
    name = `\0kube-ipvs-proxy-test-${randomUUID()}`;
    log = new TestLog();
  });
  afterEach(() => {
    for (const release of releases.splice(0)) release();
  });

  test('names its holder to whoever asks, until it is given up', async () => {
    expect(await runningDaemon(name)).toBeUndefined();
    const { release } = await hold('a');
    expect(await Promise.all([runningDaemon(name), runningDaemon(name)])).toEqual([described('a'), described('a')]);
    // One who asks and says nothing keeps nobody else from asking.
    const silent = createConnection({ path: name });
    expect(await runningDaemon(name)).toBe(described('a'));
    silent.destroy();
    release();
    await setTimeout(20);
    expect(await runningDaemon(name)).toBeUndefined();
    expect(log.lines).toEqual([]);
  });

  test('held by another daemon is a warning that names it, and is taken when that has ended', async () => {
    const { release } = await hold('a');
    await hold('b');
    expect(log.lines).toEqual([
      `warn: another kube-ipvs-proxy runs in this network namespace (${described('a')}): both write the same objects; stop one of them`,
    ]);
    await setTimeout(100);
    expect(log.lines).toHaveLength(1);
    release();
    for (let wait = 0; wait < 100 && log.lines.length < 2; wait++) await setTimeout(20);
    expect(log.lines[1]).toBe(
      'info: took the lock of this network namespace: no other kube-ipvs-proxy holds it any more',
    );
    expect(await runningDaemon(name)).toBe(described('b'));
  });

  test('held by a daemon in another mode, which is named, is an error', async () => {
    await hold('a');
    await expect(hold('b', 'nftables')).rejects.toThrow(
      `another kube-ipvs-proxy runs in this network namespace (${described('a')}), and each would delete what the other one writes: stop that one first, or start this one with --take-over`,
    );
    expect(log.lines).toEqual([]);
  });

  test('with --take-over, a daemon in another mode waits for the lock', async () => {
    const { release } = await hold('a');
    const { taken } = await hold('b', 'nftables', true);
    let isTaken = false;
    void taken.then(() => (isTaken = true));
    await setTimeout(50);
    expect(isTaken).toBe(false);
    expect(log.lines).toEqual([
      `warn: another kube-ipvs-proxy runs in this network namespace (${described('a')}): what its mode has written stays until it has ended; stop it`,
    ]);
    release();
    await taken;
    expect(log.lines).toHaveLength(2);
  });

  test('a holder of an older version, which does not say its mode, is only a warning', async () => {
    const older = createServer((socket) => socket.end('node a, process 7, version v0.1.0')).listen({ path: name });
    await hold('b', 'nftables');
    expect(log.lines).toEqual([expect.stringMatching(/process 7.*both write the same objects/)]);
    older.close();
  });

  test('keeps --cleanup from its work; --force says what happens', () => {
    expect(() => requireNoDaemon(undefined, false, log)).not.toThrow();
    expect(() => requireNoDaemon('node a', false, log)).toThrow(
      /^kube-ipvs-proxy runs in this network namespace \(node a\): stop that daemon first.* With --force /,
    );
    requireNoDaemon('node a', true, log);
    expect(log.lines).toEqual([expect.stringMatching(/^warn: .*\(node a\): removing everything because of --force/)]);
  });
});
