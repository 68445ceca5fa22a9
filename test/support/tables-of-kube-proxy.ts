import { IP_FAMILIES } from '../../src/base/ip.ts';
import { constantSets } from '../../src/kernel/nftables/objects/sets.ts';
import { FakeNftTable } from '../fake-kernel/fake-nft-table.ts';

/** The tables of nf_tables as kube-proxy has them, in short. */
export async function tablesOfKubeProxy(): Promise<FakeNftTable> {
  const table = new FakeNftTable();
  for (const family of IP_FAMILIES) {
    const map = constantSets(family).find(({ name }) => name === 'service-ips');
    if (map === undefined) throw new Error('no such map');
    await table.commit(family, [
      { kind: 'new-table' },
      { kind: 'new-set', set: map },
      { kind: 'new-set', set: { ...map, name: 'service-nodeports' } },
      { kind: 'new-chain', chain: { name: 'service-ABC/default/web' } },
    ]);
  }
  table.committed.length = 0;
  return table;
}
