import { describe, expect, test } from '@jest/globals';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { TestLog } from '../../../support/reconciling.ts';

const kernelOf = (table: FakeNftTable) => nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);

const uses = (messages: readonly NftMessage[], names: readonly string[]): boolean =>
  messages.some(
    (message) => message.kind === 'new-rule' && message.expressions.some(({ name }) => names.includes(name)),
  );

describe('a kernel without some expressions of nf_tables', () => {
  test('is refused before anything is written, with the modules that it lacks', async () => {
    const table = new FakeNftTable();
    table.refuse = (messages) => (uses(messages, ['numgen', 'nat']) ? 'ENOENT' : undefined);
    await expect(kernelOf(table).probeRules(4)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('load the modules nft_numgen, nft_nat, or use --proxy-mode=ipvs') as unknown,
    });
    expect(table.tables.size).toBe(0);
  });

  test('is not what a kernel is that refuses every transaction', async () => {
    const table = new FakeNftTable();
    table.refuse = () => 'EPERM';
    await expect(kernelOf(table).probeRules(4)).rejects.toMatchObject({ code: 'EPERM' });
  });

  test('is found with the empty table that --init-only makes, too', async () => {
    const table = new FakeNftTable();
    const kernel = kernelOf(table);
    await kernel.prepare();
    table.refuse = (messages) => (uses(messages, ['reject']) ? 'ENOENT' : undefined);
    await expect(kernel.probeRules(4)).rejects.toThrow('load the modules nft_reject_ipv4, or');
    await expect(kernel.probeRules(6)).rejects.toThrow('load the modules nft_reject_ipv6, or');
    table.refuse = () => undefined;
    const before = structuredClone(table.tables);
    await expect(kernel.probeRules(4)).resolves.toBe('none');
    expect(table.tables).toEqual(before);
  });

  test('is found with the table of another program, too, whose rules may do without them', async () => {
    const table = new FakeNftTable();
    await table.commit(4, [{ kind: 'new-table' }, { kind: 'new-chain', chain: { name: 'services' } }]);
    const before = structuredClone(table.tables);
    table.refuse = (messages) => (uses(messages, ['redir']) ? 'ENOENT' : undefined);
    await expect(kernelOf(table).probeRules(4)).rejects.toThrow('load the modules nft_redir, or');
    expect(table.tables).toEqual(before);
  });

  test('is found if it is the type of chain that translates addresses', async () => {
    const table = new FakeNftTable();
    table.refuse = (messages) =>
      messages.some((message) => message.kind === 'new-chain' && message.chain.base?.type === 'nat')
        ? 'ENOENT'
        : undefined;
    await expect(kernelOf(table).probeRules(4)).rejects.toThrow('load the modules nft_chain_nat, or');
  });

  test('leaves nothing behind if it lacks none', async () => {
    const table = new FakeNftTable();
    await expect(kernelOf(table).probeRules(6)).resolves.toBe('none');
    expect(table.tables.size).toBe(0);
  });
});
