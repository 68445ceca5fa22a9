import { describe, expect, test } from '@jest/globals';
import { removeAll } from '../../../src/daemon/clean-up.ts';
import { removeLeftovers, logDeviceDeleter } from '../../../src/daemon/modes/other-modes.ts';
import { KnownLeftovers } from '../../../src/daemon/modes/known-leftovers.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import type { Leftover } from '../../../src/kernel/leftovers/leftovers.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { parseIp } from '../../../src/base/ip.ts';
import { toPort } from '../../../src/base/port.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { configOf } from '../../support/config.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { Reconciling, TestLog } from '../../support/reconciling.ts';

const CHAINS: Leftover = {
  kind: 'chains',
  family: 4,
  variant: 'system',
  chains: ['nat/KUBE-SVC-ABCDEFGHIJKLMNOP'],
  script: '',
};
const NFT: Leftover = { kind: 'nft-table', family: 6 };

class FakeLeftovers {
  readonly removed: Leftover[] = [];
  left: Leftover[];
  refuse = false;

  constructor(...left: Leftover[]) {
    this.left = left;
  }

  async find(): Promise<Leftover[]> {
    return await Promise.resolve([...this.left]);
  }

  async remove(leftover: Leftover): Promise<void> {
    await Promise.resolve();
    if (this.refuse) throw new Error('refused');
    this.left = this.left.filter((other) => other !== leftover);
    this.removed.push(leftover);
  }
}

/** A node with a programmed Service and a foreign virtual server. */
async function served(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const foreign = { address: parseIp('172.20.0.1')!, port: toPort(443)!, protocol: 'TCP' } as const;
  kernel.put({
    kind: 'add-virtual-server',
    virtualServer: { ...foreign, scheduler: 'rr', flags: 0, timeout: 0, prefix: 32 },
  });
  kernel.put({ kind: 'add-route', cidr: parseCidr('10.96.0.0/12')! });
  kernel.tables.routes.set('10.112.0.0/12', { cidr: parseCidr('10.112.0.0/12')!, ours: false });
  await new Reconciling(kernel).take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
  return kernel;
}

async function left(kernel: FakeKernel): Promise<unknown> {
  return {
    virtualServers: (await kernel.getVirtualServers()).map(formatVirtualServer),
    sets: await kernel.getSets(),
    bound: await kernel.getBoundAddresses(),
    rules: [kernel.rules(4), kernel.rules(6)],
    device: kernel.tables.device,
    routes: [...kernel.tables.routes.keys()],
  };
}

const CLEAN = {
  virtualServers: ['TCP 172.20.0.1:443'],
  sets: [],
  bound: [],
  rules: [undefined, undefined],
  routes: ['10.112.0.0/12'],
  device: false,
};

describe('--cleanup', () => {
  test('--cleanup leaves foreign objects, and removes ours and the leftovers of other modes', async () => {
    const kernel = await served();
    const others = new FakeLeftovers(CHAINS, NFT);
    expect(await removeAll(kernel, others, configOf('--cleanup'), new TestLog())).toBe(0);
    expect(await left(kernel)).toEqual(CLEAN);
    expect(others.removed).toEqual([CHAINS, NFT]);
  });

  test('a second --cleanup has nothing to remove and succeeds', async () => {
    const kernel = await served();
    const others = new FakeLeftovers(CHAINS);
    await removeAll(kernel, others, configOf('--cleanup'), new TestLog());
    expect(await removeAll(kernel, others, configOf('--cleanup'), new TestLog())).toBe(0);
    expect(await left(kernel)).toEqual(CLEAN);
    expect(others.removed).toHaveLength(1);
  });

  test.each(['removeRules', 'removeDevice', 'getVirtualServers'] as const)(
    'what cannot be done (%s) is named, the rest is done, the exit code is 1; a later run finishes',
    async (method) => {
      const kernel = await served();
      kernel.failMethod(method, 'EPERM');
      const log = new TestLog();
      const others = new FakeLeftovers(NFT);
      expect(await removeAll(kernel, others, configOf('--cleanup'), log)).toBe(1);
      expect(log.lines.filter((line) => line.startsWith('error:')).join('\n')).toContain('EPERM');
      expect(others.removed).toEqual([NFT]);
      kernel.recover();
      expect(await removeAll(kernel, others, configOf('--cleanup'), log)).toBe(0);
      expect(await left(kernel)).toEqual(CLEAN);
    },
  );

  test('--cleanup leaves an interface kube-ipvs0 of another kind, names it, and removes the rest', async () => {
    const kernel = await served();
    const reason = 'interface kube-ipvs0 is not a dummy interface but bridge: rename or delete it';
    kernel.prepare = () => Promise.reject(new KernelError('device', 'EEXIST', reason));
    const log = new TestLog();
    expect(await removeAll(kernel, new FakeLeftovers(), configOf('--cleanup'), log)).toBe(0);
    expect(log.lines).toContain(`warn: ${reason}. The interface is left alone`);
    expect(await left(kernel)).toEqual(CLEAN);
  });

  test('--cleanup exits with 1 if a leftover cannot be removed, and removes the rest', async () => {
    const kernel = await served();
    const others = new FakeLeftovers(CHAINS);
    others.refuse = true;
    const log = new TestLog();
    expect(await removeAll(kernel, others, configOf('--cleanup'), log)).toBe(1);
    expect(log.lines).toContainEqual(
      expect.stringMatching(/error: failed to remove 1 chains in iptables-save.*refused/),
    );
    expect(await left(kernel)).toEqual(CLEAN);
  });
});

describe('leftovers of other modes at a start', () => {
  test('after the first sync, chains of iptables mode and tables of nftables mode are removed', async () => {
    const others = new FakeLeftovers(CHAINS, NFT);
    const log = new TestLog();
    await removeLeftovers(others, log, { knownLeftovers: new KnownLeftovers() });
    expect(others.left).toEqual([]);
    expect(log.lines).toEqual([
      expect.stringMatching(/^info: .*in iptables mode left: .*KUBE-SVC-ABCDEFGHIJKLMNOP/),
      expect.stringMatching(/^info: .*in nftables mode left: nftables table ip6 kube-proxy/),
    ]);
  });

  test('what cannot be removed does not keep the rest', async () => {
    const others = new FakeLeftovers(CHAINS, NFT);
    const remove = others.remove.bind(others);
    others.remove = (leftover) => (leftover === CHAINS ? Promise.reject(new Error('unreadable')) : remove(leftover));
    const stop = new Error('enough');
    const tried = removeLeftovers(others, new TestLog(), {
      knownLeftovers: new KnownLeftovers(),
      wait: () => Promise.reject(stop),
    });
    await expect(tried).rejects.toBe(stop);
    expect(others.removed).toEqual([NFT]);
  });

  test('a failed removal of leftovers is logged and tried again, ever later, until it succeeds', async () => {
    const others = new FakeLeftovers(CHAINS, NFT);
    others.refuse = true;
    const log = new TestLog();
    const waited: number[] = [];
    const knownLeftovers = new KnownLeftovers();
    const wait = async (ms: number): Promise<void> => {
      expect(knownLeftovers.texts).toContain('rules of other modes: refused');
      others.refuse = waited.push(ms) < 12;
      await Promise.resolve();
    };
    await removeLeftovers(others, log, { knownLeftovers, wait });
    expect(others.removed).toEqual([CHAINS, NFT]);
    expect(waited.slice(0, 3)).toEqual([2_000, 4_000, 8_000]);
    expect(waited.at(-1)).toBe(600_000);
    expect(log.lines[0]).toMatch(/^warn: .*: refused; the next attempt is in 2 s$/);
    expect(log.lines.at(-1)).toMatch(/^info: removed/);
    expect(knownLeftovers.texts).toEqual(['ipvs mode: after the first sync']);
  });
});

describe('after kube-ipvs0 was deleted by others', () => {
  test.each([
    [
      'at once, where its traces are there',
      [[CHAINS, NFT]],
      0,
      /probably a kube-proxy.*KUBE-SVC-.*nftables table ip6 kube-proxy/,
    ],
    ['later, once they are there', [[], [CHAINS]], 10_000, /probably a kube-proxy/],
    ['as nobody known, where there are none', [[], []], 10_000, /no rules of a kube-proxy/],
  ])('the likely cause is named %s', async (_when, found, waited, said) => {
    const log = new TestLog();
    const looks: Leftover[][] = [...found];
    let waits = 0;
    await logDeviceDeleter({ find: () => Promise.resolve(looks.shift() ?? []) }, log, (ms) =>
      Promise.resolve((waits += ms)),
    );
    expect(waits).toBe(waited);
    expect(log.lines).toEqual([expect.stringMatching(said)]);
  });
});
