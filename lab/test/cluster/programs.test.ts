import { expect, test } from '@jest/globals';
import { cacheOf } from '../../cluster/folders.ts';
import { CLUSTER_PROGRAMS, PROGRAMS, linkerFlags, stagedModules, stagedVersion } from '../../cluster/programs.ts';

const GO_MOD = `module k8s.io/kubernetes

require (
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/cri-client => ./staging/src/k8s.io/cri-client
	example.com/fork => example.com/other v1.0.0
)

replace k8s.io/kubelet => ./staging/src/k8s.io/kubelet
`;

test('the staged modules of Kubernetes are those that its go.mod replaces by folders', () => {
  expect(stagedModules(GO_MOD)).toEqual(['k8s.io/api', 'k8s.io/cri-client', 'k8s.io/kubelet']);
  expect(stagedVersion('1.35.4')).toBe('0.35.4');
});

test('the programs report the version of Kubernetes', () => {
  expect(linkerFlags('1.35.4')).toContain('-X k8s.io/component-base/version.gitVersion=v1.35.4');
  expect(linkerFlags('1.35.4')).toContain('-X k8s.io/component-base/version.gitMinor=35');
});

test('all that a cluster needs can be built', () => {
  const names = PROGRAMS.map(({ name }) => name);
  expect(CLUSTER_PROGRAMS.filter((name) => !names.includes(name))).toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});

test('the cache is outside the checkout, in a folder of the version', () => {
  expect(cacheOf('1.35.4', { XDG_CACHE_HOME: '/var/cache/me' }).bin).toBe(
    '/var/cache/me/kube-ipvs-proxy/kubernetes/1.35.4/bin',
  );
  expect(cacheOf('1.35.4', {}).bin).toMatch(/\/\.cache\/kube-ipvs-proxy\/kubernetes\/1\.35\.4\/bin$/);
});
