import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { cidrOf, formatCidr } from '../../../../src/base/cidr.ts';
import { formatIp } from '../../../../src/base/ip.ts';
import { removeIdle } from '../../../../src/daemon/modes/ipvs-in-use.ts';
import { KnownLeftovers } from '../../../../src/daemon/modes/known-leftovers.ts';
import { RetiringIpvs } from '../../../../src/daemon/modes/retiring-ipvs.ts';
import type { Flow } from '../../../../src/kernel/kernel.ts';
import { rulesOfIpvsOnly, rulesWithoutMark } from '../../../../src/plan/ipvs/plan-rules.ts';
import { type VirtualServerId, virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { address, endpoint, ip, port, realServer, set, virtualServer } from '../../../contract/objects.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { configOf } from '../../../support/config.ts';
import { RecordingLog } from '../../kube/recording-log.ts';

const BUSY = virtualServer(address(4, 1), 80);
const IDLE = virtualServer(address(4, 2), 80);
/** At an address that a busy one needs, too. */
const NEIGHBOUR = virtualServer(address(4, 1), 443);
const FOREIGN = virtualServer(address(4, 99), 80);
const NODE = ip('10.0.0.1');
/** A connection of the node itself to an address of its own, which another mode has translated. */
const OWN_FLOW: Flow = {
  family: 4,
  protocol: 'TCP',
  source: IDLE.address,
  sourcePort: port(40_000),
  destination: IDLE.address,
  destinationPort: port(80),
  replySource: endpoint(4, 1),
  replySourcePort: port(8080),
};

async function kernelWithConnections(): Promise<{ kernel: FakeKernel; end: () => void }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  kernel.setNodeAddresses([{ address: NODE, prefix: 24, interfaceName: 'eth0', tentative: false }]);
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

  test('a virtual server and its address stay until its last connection has ended', async () => {
    const { kernel, end } = await kernelWithConnections();
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 1, addresses: 1 });
    const keys = (ids: readonly VirtualServerId[]): unknown => new Set(ids.map((id) => virtualServerKey(id)));
    const left = async (): Promise<unknown> => keys(await kernel.getVirtualServers());
    expect(await left()).toEqual(keys([BUSY, FOREIGN]));
    expect(await kernel.getBoundAddresses()).toEqual([]);
    expect(await routesOf(kernel)).toEqual([`${formatIp(BUSY.address)}/32 src 10.0.0.1`]);
    end();
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 0 });
    expect(await left()).toEqual(keys([FOREIGN]));
    expect(await routesOf(kernel)).toEqual([]);
  });

  test("an address stays until the last of the node's own connections from it has ended", async () => {
    const { kernel, end } = await kernelWithConnections();
    end();
    kernel.setUdpFlows([OWN_FLOW]);
    for (const _pass of [1, 2]) {
      expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 1 });
      expect(await routesOf(kernel)).toEqual([`${formatIp(IDLE.address)}/32 src 10.0.0.1`]);
    }
    kernel.setUdpFlows([]);
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 0 });
    expect(await routesOf(kernel)).toEqual([]);
  });

  test('an address stays bound while it is needed, if the node has no other', async () => {
    const { kernel, end } = await kernelWithConnections();
    kernel.setNodeAddresses([]);
    end();
    kernel.setUdpFlows([OWN_FLOW]);
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 1 });
    expect((await kernel.getBoundAddresses()).map((bound) => bound.address)).toEqual([IDLE.address]);
    expect(await routesOf(kernel)).toEqual([]);
  });

  test('a local route of light mode stays while an address in it is needed', async () => {
    const { kernel, end } = await kernelWithConnections();
    end();
    const cidr = cidrOf(IDLE.address, 24);
    kernel.put({ kind: 'add-route', cidr });
    kernel.setUdpFlows([OWN_FLOW]);
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 2 });
    expect(await routesOf(kernel)).toContain(`${formatCidr(cidr)} src 10.0.0.1`);
    kernel.setUdpFlows([]);
    expect(await removeIdle(kernel, [])).toEqual({ virtualServers: 0, addresses: 0 });
    expect(await routesOf(kernel)).toEqual([]);
  });

  test('its rules are removed once, and again only if that failed', async () => {
    jest.useFakeTimers();
    const { kernel, end } = await kernelWithConnections();
    const log = new RecordingLog();
    const removals: boolean[] = [];
    const remove = kernel.removeRules.bind(kernel);
    kernel.removeRules = async (rules) => {
      removals.push(rules.chains.some(({ name }) => ['KUBE-IPVS-ACCEPT', 'KUBE-IPVS-FILTER'].includes(name)));
      if (removals.length === 1) throw new Error('the lock is held');
      await remove(rules);
    };
    const left: boolean[] = [];
    const knownLeftovers = new KnownLeftovers((isAnyLeft) => left.push(isAnyLeft));
    knownLeftovers.remove('rules of other modes');
    const parts = { config: configOf(), log, onProgram: () => undefined, knownLeftovers };
    const retiring = new RetiringIpvs(parts, rulesOfIpvsOnly, { open: () => Promise.resolve(kernel) });
    retiring.start();
    await jest.advanceTimersByTimeAsync(60_000);
    // Two families; the first attempt failed at the first one. What lets open connections pass and closes other ports stays.
    expect(removals).toEqual([false, false, false]);
    expect(log.messages('warn')).toEqual([expect.stringContaining('the lock is held')]);
    expect(knownLeftovers.texts).toEqual(['ipvs mode: 1 virtual server with connections, 1 address in use']);
    end();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(removals).toEqual([false, false, false, true, true]);
    expect(log.messages('info').at(-1)).toBe('removed the last objects of ipvs mode');
    expect({ texts: knownLeftovers.texts, last: left.at(-1) }).toEqual({ texts: [], last: false });
    retiring.stop();
  });

  test('a set that another program uses is tried again, ever later, while kube-ipvs0 stays', async () => {
    jest.useFakeTimers();
    const { kernel, end } = await kernelWithConnections();
    end();
    const inUse = set(4, 'CLUSTER-IP', 'hash:ip,port');
    kernel.put({ kind: 'create-set', set: inUse });
    kernel.failOps((op) => (op.kind === 'destroy-set' ? 16 : undefined));
    let devices = 0;
    const removeDevice = kernel.removeDevice.bind(kernel);
    kernel.removeDevice = async () => {
      devices += 1;
      await removeDevice();
    };
    const log = new RecordingLog();
    const left: boolean[] = [];
    const knownLeftovers = new KnownLeftovers((isAnyLeft) => left.push(isAnyLeft));
    knownLeftovers.remove('rules of other modes');
    const parts = { config: configOf(), log, onProgram: () => undefined, knownLeftovers };
    const retiring = new RetiringIpvs(parts, rulesWithoutMark, {
      rulesAreGone: true,
      open: () => Promise.resolve(kernel),
    });
    retiring.start();
    await jest.advanceTimersByTimeAsync(3_600_000);
    expect(devices).toBe(0);
    expect({ texts: knownLeftovers.texts, last: left.at(-1) }).toEqual({
      texts: ['ipvs mode: see the errors above'],
      last: true,
    });
    expect(log.messages('warn').length).toBeLessThan(14);
    kernel.recover();
    await jest.advanceTimersByTimeAsync(600_000);
    expect(devices).toBe(1);
    expect(log.messages('info').at(-1)).toBe('removed the last objects of ipvs mode');
    retiring.stop();
  });
});

async function routesOf(kernel: FakeKernel): Promise<string[]> {
  const routes = await kernel.getLocalRoutes();
  return routes.map(
    ({ cidr, source }) => `${formatCidr(cidr)} src ${source === undefined ? 'none' : formatIp(source)}`,
  );
}
