import { configDocument } from './config-document.ts';
import { OWN_GROUP, ownFieldsDocument } from './own-document.ts';
import type { ProxyConfig } from './proxy-config.ts';
import { FLAGS } from './flags/flag-table.ts';
import { textOf } from './flags/setting.ts';

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

/** Returns the lines of /flagz, sorted: each flag as "name=value" with the effective value of the setting. */
export function flagz({ settings }: Pick<ProxyConfig, 'settings'>): string[] {
  return FLAGS.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(
    (flag) => `${flag.name}=${textOf(flag, settings[flag.key])}`,
  );
}
