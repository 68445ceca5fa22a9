import { randomUUID } from 'node:crypto';
import { createConnection } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { requireNoDaemon } from '../../../../src/daemon/clean-up.ts';
import { holdDaemonLock, runningDaemon } from '../../../../src/daemon/startup/daemon-lock.ts';
import { TestLog } from '../../../support/reconciling.ts';

describe('the lock of a daemon', () => {
  let name: string;
  let log: TestLog;
  const releases: (() => void)[] = [];
  const hold = async (holder: string): Promise<() => void> => {
    const release = await holdDaemonLock(holder, log, name, 20);
    releases.push(release);
    return release;
  };

  beforeEach(() => {
    name = `\0kube-ipvs-proxy-test-${randomUUID()}`;
    log = new TestLog();
  });
  afterEach(() => {
    for (const release of releases.splice(0)) release();
  });

  test('names its holder to whoever asks, until it is given up', async () => {
    expect(await runningDaemon(name)).toBeUndefined();
    const release = await hold('node a');
    expect(await Promise.all([runningDaemon(name), runningDaemon(name)])).toEqual(['node a', 'node a']);
    // One who asks and says nothing keeps nobody else from asking.
    const silent = createConnection({ path: name });
    expect(await runningDaemon(name)).toBe('node a');
    silent.destroy();
    release();
    await setTimeout(20);
    expect(await runningDaemon(name)).toBeUndefined();
    expect(log.lines).toEqual([]);
  });

  test('held by another daemon is a warning that names it, and is taken when that has ended', async () => {
    const release = await hold('node a, process 7');
    await hold('node b');
    expect(log.lines).toEqual([
      'warn: another kube-ipvs-proxy runs in this network namespace (node a, process 7): both write the same objects; stop one of them',
    ]);
    await setTimeout(100);
    expect(log.lines).toHaveLength(1);
    release();
    for (let wait = 0; wait < 100 && log.lines.length < 2; wait++) await setTimeout(20);
    expect(log.lines[1]).toBe(
      'info: took the lock of this network namespace: no other kube-ipvs-proxy holds it any more',
    );
    expect(await runningDaemon(name)).toBe('node b');
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
