import { expect, test } from '@jest/globals';
import { componentOf } from '../../cluster/control.ts';
import type { ClusterState, ComponentState } from '../../cluster/state-file.ts';

const etcd: ComponentState = { name: 'etcd', argv: [], pidFile: '', endFile: '', logs: ['etcd.log'] };

function cluster(components: readonly ComponentState[]): ClusterState {
  return {
    cluster: 'a',
    kubernetes: '1.35.4',
    families: ['ipv4'],
    kubeconfig: '',
    netns: '',
    kubectl: '',
    bin: '',
    nodes: [],
    components,
    keeper: { pid: 1, startTime: '1' },
  };
}

test('a component is found by its name', () => {
  expect(componentOf(cluster([etcd]), 'etcd')).toBe(etcd);
});

test('a wrong name is answered with the names that there are', () => {
  expect(() => componentOf(cluster([etcd]), 'node-9')).toThrow('the cluster a has no component node-9; it has etcd');
  expect(() => componentOf(cluster([]), 'etcd')).toThrow('it has none');
});
