import { isOurs } from '../e2e/results.ts';
import type { TrialContext } from './context.ts';

const NAMESPACE = '--namespace=kube-system';

/**
 * Edits config.conf in the ConfigMap of the service proxy that the cluster runs. If the text changes, restarts its Pods one
 * after another.
 * Returns the text as it was.
 */
export async function configure(context: TrialContext, edit: (text: string) => string): Promise<string> {
  const daemonSet = `daemonset/${isOurs(context.proxy) ? 'kube-ipvs-proxy' : 'kube-proxy'}`;
  const volume = '--output=jsonpath={.spec.template.spec.volumes[*].configMap.name}';
  const name = await context.kubectl([NAMESPACE, 'get', daemonSet, volume]);
  const text = String.raw`--output=jsonpath={.data.config\.conf}`;
  const before = await context.kubectl([NAMESPACE, 'get', 'configmap', name, text]);
  const after = edit(before);
  if (after === before) return before;
  const patch = JSON.stringify({ data: { 'config.conf': after } });
  await context.kubectl([NAMESPACE, 'patch', `configmap/${name}`, `--patch=${patch}`]);
  await context.kubectl([NAMESPACE, 'rollout', 'restart', daemonSet]);
  await context.rollout(daemonSet, 'kube-system');
  return before;
}

/** The edit that adds a line to the section `ipvs`. */
export function withIpvsLine(line: string): (text: string) => string {
  return (text) => {
    const after = text.replace(/^ipvs:$/m, `ipvs:\n  ${line}`);
    if (after === text) throw new Error(`config.conf has no section ipvs: ${text}`);
    return after;
  };
}
