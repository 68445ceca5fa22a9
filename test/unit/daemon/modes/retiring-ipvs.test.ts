import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { RetiringIpvs, removeIdleServers } from '../../../../src/daemon/modes/retiring-ipvs.ts';
import { rulesOfIpvsOnly } from '../../../../src/plan/plan-rules.ts';
import { type VirtualServerId, virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { configOf } from '../../../support/config.ts';
import { RecordingLog } from '../../kube/recording-log.ts';

const BUSY = virtualServer(address(4, 1), 80);
const IDLE = virtualServer(address(4, 2), 80);
/** At an address that a busy one needs, too. */
const NEIGHBOUR = virtualServer(address(4, 1), 443);
const FOREIGN = virtualServer(address(4, 99), 80);

async function kernelWithConnections(): Promise<{ kernel: FakeKernel; end: () => void }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  for (const id of [BUSY, IDLE, NEIGHBOUR, FOREIGN]) {
    kernel.put({ kind: 'add-virtual-server', virtualServer: id });
    kernel.put({ kind: 'add-real-server', id, realServer: realServer(endpoint(4, 1), 8080) });
  }
  for (const id of [BUSY, IDLE]) kernel.put({ kind: 'bind-address', address: id.address });
  const server = realServer(endpoint(4, 1), 8080);
  kernel.setObserved(BUSY, server, { activeConnections: 0, inactiveConnections: 1 });
  return { kernel, end: () => kernel.setObserved(BUSY, server, { activeConnections: 0, inactiveConnections: 0 }) };
}

describe('what ipvs mode left', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('a virtual server stays, with its address, until its last connection has ended', async () => {
    const { kernel, end } = await kernelWithConnections();
    expect(await removeIdleServers(kernel, [])).toBe(1);
    const keys = (ids: readonly VirtualServerId[]): unknown => new Set(ids.map((id) => virtualServerKey(id)));
    const left = async (): Promise<unknown> => keys(await kernel.getVirtualServers());
    expect(await left()).toEqual(keys([BUSY, FOREIGN]));
    expect((await kernel.getBoundAddresses()).map((bound) => bound.address)).toEqual([BUSY.address]);
    end();
    expect(await removeIdleServers(kernel, [])).toBe(0);
    expect(await left()).toEqual(keys([FOREIGN]));
    expect(await kernel.getBoundAddresses()).toEqual([]);
  });

  test('its rules are removed once, and again only if that failed', async () => {
    jest.useFakeTimers();
    const { kernel, end } = await kernelWithConnections();
    const log = new RecordingLog();
    let removals = 0;
    const remove = kernel.removeRules.bind(kernel);
    kernel.removeRules = async (rules) => {
      removals += 1;
      if (removals === 1) throw new Error('the lock is held');
      await remove(rules);
    };
    const parts = { config: configOf(), log, onProgram: () => undefined };
    const retiring = new RetiringIpvs(parts, rulesOfIpvsOnly, () => Promise.resolve(kernel));
    retiring.start();
    await jest.advanceTimersByTimeAsync(60_000);
    // Two families; the first attempt failed at the first one.
    expect(removals).toBe(3);
    expect(log.messages('warn')).toEqual([expect.stringContaining('the lock is held')]);
    end();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(log.messages('info').at(-1)).toBe('ipvs mode is retired: nothing of it is left on this node');
    retiring.stop();
  });
});
