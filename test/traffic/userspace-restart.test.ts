import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { patient } from '../bed/patience.ts';
import { ChangingNode, WAYS } from './changing-node.ts';
import { LEAST_REQUESTS, LOAD_TIME_MS } from './steady-load.ts';

jest.setTimeout(patient(180_000) + LOAD_TIME_MS);

describe.each([
  ['nftables', 'userspace'],
  ['userspace', 'userspace'],
  ['userspace', 'nftables'],
  ['userspace', 'ipvs'],
] as const)('a restart from %s to %s', (from, to) => {
  let changing: ChangingNode;

  beforeAll(async () => {
    changing = await ChangingNode.create(from);
  });

  afterAll(async () => {
    await changing[Symbol.asyncDispose]();
  });

  test('no new connection fails; those of the engine go on until it ends', async () => {
    await changing.hold();
    const { sent, failures } = await changing.load(async () => {
      await changing.restart(to);
      await changing.untilServedBy(to);
    });
    expect(failures).toEqual({});
    expect(sent).toBeGreaterThanOrEqual(LEAST_REQUESTS);
    const broken = await changing.brokenConnections();
    expect(broken).toHaveLength(from === 'userspace' ? WAYS.filter(([, protocol]) => protocol === 'tcp').length : 0);
  });

  test('while no daemon runs, the rules that it left serve', async () => {
    await changing.daemon.stop();
    expect((await changing.load(() => sleep(500), 0)).failures).toEqual({});
  });
});

test('a daemon that starts beside another one takes over when that one ends: no new connection fails', async () => {
  await using node = await ChangingNode.create('userspace');
  const { sent, failures } = await node.load(async () => {
    await node.restartBeside('userspace');
    await sleep(patient(2_000));
  });
  expect(failures).toEqual({});
  expect(sent).toBeGreaterThanOrEqual(LEAST_REQUESTS);
});
