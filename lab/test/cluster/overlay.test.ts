import { expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { overlayFiles } from '../../cluster/overlay.ts';

const FOLDER = '/project/build/cluster/test/manifests/kube-ipvs-proxy';

test('the overlay takes the manifests as they are and gives them a configuration', () => {
  const files = overlayFiles({ families: ['ipv6', 'ipv4'], overlay: 'restricted', proxy: 'ours' }, FOLDER, '/project');
  const kustomization = load(files['kustomization.yaml'] ?? '') as { resources: unknown; configMapGenerator: unknown };
  expect(kustomization.resources).toEqual(['../../../../../manifests/overlays/restricted']);
  expect(kustomization.configMapGenerator).toEqual([
    { name: 'kube-ipvs-proxy', behavior: 'merge', files: ['config.conf', 'kubeconfig.conf'] },
  ]);
  expect(load(files['config.conf'] ?? '')).toMatchObject({ mode: 'ipvs', clusterCIDR: 'fd00:244::/48,10.244.0.0/16' });
  expect(load(files['kubeconfig.conf'] ?? '')).toMatchObject({
    clusters: [{ name: 'default', cluster: { server: 'https://[fd00:30::1]:6443' } }],
  });
});
