import path from 'node:path';
import { apiServer, each } from './addresses.ts';
import { serviceAccountKubeconfig } from './kube-proxy.ts';
import { OUR_MODES, type Settings } from './settings.ts';

/**
 * A kustomize overlay of ours: names and texts of its files, for a folder. As in docs/migrate.md, it changes nothing but
 * the configuration; the rest is as it is in the manifests of the project.
 */
export function overlayFiles(
  settings: Pick<Settings, 'families' | 'overlay' | 'proxy'>,
  folder: string,
  project: string,
): Readonly<Record<string, string>> {
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    namespace: 'kube-system',
    resources: [path.relative(folder, path.join(project, 'manifests/overlays', settings.overlay))],
    configMapGenerator: [{ name: 'kube-ipvs-proxy', behavior: 'merge', files: ['config.conf', 'kubeconfig.conf'] }],
  };
  return {
    'kustomization.yaml': `${JSON.stringify(kustomization, undefined, 2)}\n`,
    'config.conf': `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${OUR_MODES[settings.proxy] ?? 'ipvs'}
ipvs:
  scheduler: rr
clusterCIDR: ${each(settings.families, (plan) => plan.pods)}
clientConnection:
  kubeconfig: /etc/kube-ipvs-proxy/kubeconfig.conf
bindAddressHardFail: true
metricsBindAddress: 127.0.0.1:10249
`,
    'kubeconfig.conf': serviceAccountKubeconfig(apiServer(settings.families)),
  };
}
