import { expect, test } from '@jest/globals';
import { targetsOfPod } from '../../cluster/trial/servers.ts';

test('the client in a Pod uses ClusterIPs and the node ports of its own node', () => {
  const targets = ['10.96.0.10', '172.30.0.11', '172.30.0.12'].map((address) => ({ name: address, address, port: 80 }));
  const nodes = [
    { name: 'node-1', addresses: ['172.30.0.11', 'fd00:30::b'] },
    { name: 'node-2', addresses: ['172.30.0.12', 'fd00:30::c'] },
  ];
  const names = targetsOfPod(targets, 'node-1', { nodes }).map(({ name }) => name);
  expect(names).toEqual(['10.96.0.10', '172.30.0.11']);
});
