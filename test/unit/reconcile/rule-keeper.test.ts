import { describe, expect, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';

/** A kernel whose iptables-restore waits for a lock that another program holds. */
class LockedKernel extends FakeKernel {
  #released: PromiseWithResolvers<void> | undefined;

  lock(): void {
    this.#released = Promise.withResolvers();
  }

  release(): void {
    this.#released?.resolve();
    this.#released = undefined;
  }

  /** The waiting program fails, for example because a set was missing when it started. */
  refuse(): void {
    this.#released?.reject(new Error('Set KUBE-CLUSTER-IP does not exist'));
    this.#released = undefined;
  }

  override async ensureRules(...args: Parameters<FakeKernel['ensureRules']>): ReturnType<FakeKernel['ensureRules']> {
    await this.#released?.promise;
    return await super.ensureRules(...args);
  }
}

async function serving(): Promise<{ kernel: LockedKernel; run: Reconciling }> {
  const kernel = new LockedKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
  return { kernel, run };
}

const settle = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('rules that wait for the lock of iptables', () => {
  test('rules that wait for the iptables lock delay no check and no change, and are restored when it is released', async () => {
    const { kernel, run } = await serving();
    kernel.flushRules(4);
    kernel.lock();
    expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: true });
    expect(await run.take(...listed([service('web', '10.96.0.11')], []))).toMatchObject({ kind: 'change', ok: true });
    // One program waits, not one for each check.
    for (let check = 0; check < 3; check++) expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: true });
    expect([kernel.rules(4), run.rulesRepaired]).toEqual([undefined, 0]);
    kernel.release();
    await settle();
    expect([kernel.rules(4) !== undefined, run.rulesRepaired]).toEqual([true, 1]);
  });

  test('rules are checked again for a full check that found a check of the rules running', async () => {
    const { kernel, run } = await serving();
    kernel.lock();
    await run.pass(30_000);
    kernel.flushRules(4);
    await run.pass(30_000);
    kernel.refuse();
    await settle();
    expect(kernel.rules(4)).toBeDefined();
  });

  test('rules that cannot be written do not fail a sync: the failure is logged, and retried with back-off', async () => {
    const { kernel, run } = await serving();
    kernel.flushRules(4);
    kernel.failMethod('ensureRules', 'LOCKED');
    expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: true });
    const told = (): string[] => run.log.lines.filter((line) => line.includes('failed to check or restore'));
    expect(told()).toEqual([
      expect.stringMatching(
        /^error: failed to check or restore the iptables rules of IPv4, next attempt in 1 s: .*LOCKED$/,
      ),
      expect.stringMatching(
        /^error: failed to check or restore the iptables rules of IPv6, next attempt in 1 s: .*LOCKED$/,
      ),
    ]);
    run.clock.advance(1_000);
    await settle();
    expect(told().at(-1)).toContain('next attempt in 2 s');
    kernel.recover();
    run.clock.advance(2_000);
    await settle();
    expect(kernel.rules(4)).toBeDefined();
    expect(run.log.lines).toContain('info: iptables rules in force again');
    await run.reconciler.stop();
    expect(run.clock.nextIn).toBeUndefined();
  });

  test('rules are written before a first sync adds any object', async () => {
    const kernel = new LockedKernel();
    await kernel.prepare();
    kernel.failMethod('addRules', 'LOCKED');
    const run = new Reconciling(kernel);
    const first = await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
    expect(first).toMatchObject({ kind: 'first', ok: false });
    expect(await kernel.getVirtualServers()).toEqual([]);
    kernel.recover();
    expect(await run.pass(1_000)).toMatchObject({ kind: 'first', ok: true });
  });
});
