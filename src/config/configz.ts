import { configDocument } from './config-document.ts';
import { OWN_GROUP, ownFieldsDocument } from './own-document.ts';
import type { ProxyConfig } from './proxy-config.ts';

/**
 * Returns the response of /configz: the configuration in force, as the KubeProxyConfiguration v1alpha1 that kube-proxy 1.37
 * serves under the same key. Our own fields are apart from it.
 */
export function configz({ settings, ownFields }: Pick<ProxyConfig, 'settings' | 'ownFields'>): unknown {
  return {
    'kubeproxy.config.k8s.io': configDocument(settings),
    [OWN_GROUP]: ownFieldsDocument(ownFields),
  };
}
