import type { TrialContext } from './context.ts';

/** The folder of programs that were built, as a node sees it, and where a container mounts it. */
export const PROGRAM_VOLUME = { name: 'programs', hostPath: { path: '/cluster/bin', type: 'Directory' } };
export const PROGRAM_MOUNT = { name: 'programs', mountPath: '/programs', readOnly: true };

/** The image of kube-proxy, in which other programs run, too: it has iptables and ipset. */
export async function imageForPrograms(context: TrialContext): Promise<string> {
  const images = (await context.node('node-1', 'ctr -n k8s.io images ls -q')).split('\n');
  return images.find((name) => name.includes('/kube-proxy:')) ?? '';
}
