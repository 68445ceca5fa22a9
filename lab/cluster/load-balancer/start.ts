import path from 'node:path';
import { startComponent } from '../component.ts';
import { kubeconfigOf } from '../control-plane.ts';
import type { ClusterFolder } from '../folders.ts';
import type { Settings } from '../settings.ts';
import type { ProcessMark } from '../state-file.ts';

/** Starts the load balancer of the cluster; its log is load-balancer.log. */
export async function startLoadBalancer(keeper: ProcessMark, folder: ClusterFolder, settings: Settings): Promise<void> {
  const program = path.join(import.meta.dirname, 'main.ts');
  const args = [kubeconfigOf(folder, 'admin'), settings.families.join(), String(settings.nodes)];
  await startComponent(keeper, folder.logs, 'load-balancer', [process.execPath, program, ...args]);
}
