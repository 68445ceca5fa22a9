import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { patient } from '../bed/patience.ts';
import { TEST_MODE } from '../support/mode.ts';
import { ChangingNode, WAYS } from './changing-node.ts';
import { LEAST_REQUESTS, LOAD_TIME_MS } from './steady-load.ts';

jest.setTimeout(patient(240_000) + LOAD_TIME_MS);

type Change = readonly [from: ProxyMode, to: ProxyMode];

const WITHOUT_NF_TABLES: readonly Change[] = [
  ['ipvs', 'iptables'],
  ['iptables', 'ipvs'],
];
const WITH_NF_TABLES: readonly Change[] = [
  ['ipvs', 'nftables'],
  ['nftables', 'ipvs'],
  ['nftables', 'iptables'],
  ['iptables', 'nftables'],
];
/** Debian's User-Mode Linux has no nf_tables. In CI it tries the changes that need none, so the run in nftables mode leaves them out. */
const HAS_NF_TABLES = process.env['KERNEL_USED'] !== 'uml';
const CHANGES = [...(TEST_MODE === 'nftables' ? [] : WITHOUT_NF_TABLES), ...(HAS_NF_TABLES ? WITH_NF_TABLES : [])];

describe.each(CHANGES)('a change of mode from %s to %s', (from, to) => {
  let node: ChangingNode;

  beforeAll(async () => {
    node = await ChangingNode.create(from);
  });

  afterAll(async () => {
    await node[Symbol.asyncDispose]();
  });

  test('no request fails, and open connections go on', async () => {
    await node.hold();
    const change = async (): Promise<void> => {
      await node.restart(to);
      await node.untilServedBy(to);
    };
    const { sent, failures } = await node.load(change);
    expect(failures).toEqual({});
    expect(sent).toBeGreaterThanOrEqual(LEAST_REQUESTS);
    expect(await node.brokenConnections()).toEqual([]);
  });

  test(`new connections are those of ${to} mode`, async () => {
    const before = new Set(await node.connectionsOfIpvs());
    expect((await node.load(() => sleep(500), 0)).failures).toEqual({});
    const added = (await node.connectionsOfIpvs()).filter((connection) => !before.has(connection));
    const served = new Set(added.map((connection) => connection.slice(0, connection.lastIndexOf(' '))));
    expect(served.size).toBe(to === 'ipvs' ? WAYS.length : 0);
    // Those that were open before the change are still there.
    expect(before.size > 0).toBe(from === 'ipvs' || to === 'ipvs');
  });

  test('no request fails with daemons that are killed on the way', async () => {
    await node.restart(from);
    await node.untilServedBy(from);
    await node.hold();
    const change = async (): Promise<void> => {
      await node.restartAfterKills(to);
      await node.untilServedBy(to);
    };
    expect((await node.load(change)).failures).toEqual({});
    expect(await node.brokenConnections()).toEqual([]);
  });

  test(`in the end nothing of ${from} mode is left, and all of ${to} mode is in force`, async () => {
    await node.release();
    // IPVS remembers ended connections for two minutes.
    await node.restart(to, '--ipvs-drain-timeout=1s');
    await node.untilGone(from, to);
    expect(node.daemon.output.includes('removed the last objects of ipvs mode')).toBe(from === 'ipvs');
    expect((await node.load(() => sleep(500), 0)).failures).toEqual({});
    await node.restart(to);
    await sleep(patient(1_000));
    expect(node.daemon.output).not.toContain('rules written');
  });
});

/** The kernel chooses a service address as source of the node's own connections to it while it is bound. */
describe.each(CHANGES.filter(([from]) => from === 'ipvs'))("the node's own connections, from %s to %s", (from, to) => {
  let node: ChangingNode;

  beforeAll(async () => {
    node = await ChangingNode.create(from);
  });

  afterAll(async () => {
    await node[Symbol.asyncDispose]();
  });

  test('go on when IPVS has no connection to their address any more', async () => {
    await node.hold();
    await node.restart(to);
    await node.untilServedBy(to);
    await node.holdOwn();
    expect(await node.brokenConnections()).toEqual([]);
    await node.release();
    await node.untilIpvsIsIdle();
    expect(await node.brokenConnections()).toEqual([]);
  });

  test('do not open the other ports of their address to clients', async () => {
    expect(await node.askOtherPorts()).toEqual(Array(3).fill({ ok: false, code: 'ECONNREFUSED' }));
  });

  test('keep of ipvs mode only what they need, until they end', async () => {
    expect(node.daemon.output).not.toContain('removed the last objects of ipvs mode');
    await node.releaseOwn();
    await node.untilGone(from, to);
    expect(node.daemon.output).toContain('removed the last objects of ipvs mode');
  });
});
