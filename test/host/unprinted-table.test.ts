import { execFileSync } from 'node:child_process';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { createCommandRunner } from '../../src/kernel/command-runner.ts';
import { Leftovers } from '../../src/kernel/leftovers/leftovers.ts';
import { proxyTables } from '../../src/kernel/nftables/proxy-tables.ts';
import { createIptablesKernel } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import { addressTraits } from '../../src/state/address-traits.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { LinuxBed } from '../contract/linux-bed.ts';
import { address, endpoint, realServer, virtualServer } from '../contract/objects.ts';
import { PLAN_CONFIG } from '../support/reconciling.ts';

jest.setTimeout(60_000);

/** A rule that iptables cannot express: since then iptables-nft-save prints a comment instead of the table. */
const ONLY_NFT =
  'add rule ip nat PREROUTING ip daddr 192.0.2.4 tcp dport 80 dnat to numgen random mod 2 map { 0 : 192.0.2.5, 1 : 192.0.2.6 }';

function obstacle(): string | undefined {
  try {
    execFileSync('unshare', ['--net', 'sh', '-c', 'nft list tables && iptables-nft -S'], { stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return String(error).split('\n', 2).join(' ');
  }
}

function onThisKernel(): void {
  let bed: LinuxBed;

  beforeEach(async () => {
    bed = await LinuxBed.make('nft');
  });

  afterEach(async () => {
    await bed[Symbol.asyncDispose]();
  });

  const table = (): Promise<string> => bed.run('nft', '--stateless', 'list', 'table', 'ip', 'nat');
  const unreadable = { code: 'UNREADABLE', message: expect.stringContaining('cannot print table nat') };

  test('iptables mode leaves a table alone that iptables-nft-save cannot print', async () => {
    const kernel = createIptablesKernel({ log: bed.log, netns: `/run/netns/${bed.netns}`, maxAgeMs: 0 });
    const rules = planRules({ ...PLAN_CONFIG, ...MODE_PLANS.iptables }, 4);
    await kernel.ensureRules(rules);
    const settings = { scheduler: 'random', servicePort: 'default/web', traits: addressTraits('cluster', true) };
    const id = virtualServer(address(4, 1), 80, 'TCP', settings);
    const { failures } = await kernel.apply(
      new Transaction([
        { kind: 'add-virtual-server', virtualServer: id },
        { kind: 'add-real-server', id, realServer: realServer(endpoint(4, 1), 80) },
      ]),
    );
    expect(failures).toEqual([]);
    await bed.run('nft', ONLY_NFT);
    const before = await table();
    expect(before).toContain('dnat to 10.244.0.1:80');
    await expect(kernel.ensureRules(rules)).rejects.toMatchObject(unreadable);
    await expect(kernel.getSets()).rejects.toMatchObject(unreadable);
    expect(await table()).toBe(before);
    await kernel.close();
  });

  test('chains that another mode left there are named, and removed once it can be printed', async () => {
    await bed.run('iptables-nft', '-t', 'nat', '-N', 'KUBE-NODEPORTS');
    await bed.run('iptables-nft', '-t', 'nat', '-A', 'PREROUTING', '-j', 'KUBE-NODEPORTS');
    await bed.run('nft', ONLY_NFT);
    const netns = `/run/netns/${bed.netns}`;
    const leftovers = new Leftovers(createCommandRunner({ netns }), { tables: proxyTables(netns) });
    const [found, ...more] = await leftovers.find();
    expect({ found, more }).toMatchObject({ found: { kind: 'unprinted', chains: ['nat/KUBE-NODEPORTS'] }, more: [] });
    await expect(leftovers.remove(found!)).rejects.toMatchObject(unreadable);
    await bed.run('nft', 'flush', 'chain', 'ip', 'nat', 'PREROUTING');
    for (const left of await leftovers.find()) await leftovers.remove(left);
    expect(await table()).not.toContain('KUBE-NODEPORTS');
  });

  test('so does ipvs mode', async () => {
    const rules = planRules(PLAN_CONFIG, 4);
    const withoutSets = {
      ...rules,
      chains: rules.chains.map((chain) => ({
        ...chain,
        rules: chain.rules.filter((rule) => !rule.includes('--match-set')),
      })),
    };
    await bed.kernel.ensureRules(withoutSets);
    await bed.run('nft', ONLY_NFT);
    const before = await table();
    await expect(bed.kernel.ensureRules(withoutSets)).rejects.toMatchObject(unreadable);
    await expect(bed.kernel.removeRules(withoutSets)).rejects.toMatchObject(unreadable);
    expect(await table()).toBe(before);
  });
}

const why = obstacle();
if (why === undefined) onThisKernel();
// Not a pass: nothing was tried.
else test.todo(`iptables-nft was not tried, for this takes root, nft and a kernel with nf_tables: ${why}`);
