import { existsSync } from 'node:fs';
import type { CommandRunner } from './command-runner.ts';
import { KernelError } from './kernel-error.ts';

/** There exactly where ip_vs is loaded or built in. */
const IP_VS_FILE = '/proc/net/ip_vs';

export interface ModulesOptions {
  readonly runner: CommandRunner;
  /** Whether a file exists; for tests. */
  readonly exists?: (path: string) => boolean;
}

/**
 * Sees to it that the kernel has IPVS. Schedulers, set types, kube-ipvs0's driver and conntrack's netlink interface are loaded
 * by the kernel itself when they are first asked for; only ip_vs may need a push. Starts no process where it is there.
 */
export async function loadModules({ runner, exists = existsSync }: ModulesOptions): Promise<void> {
  if (exists(IP_VS_FILE)) return;
  let reason: string;
  try {
    const { status, stderr } = await runner.run('modprobe', ['--', 'ip_vs']);
    if (status === 0 && exists(IP_VS_FILE)) return;
    reason = stderr.trim() || `modprobe ended with status ${status}, and ${IP_VS_FILE} is still missing`;
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  }
  const message =
    `the kernel module ip_vs is not loaded and cannot be: ${reason}. ` +
    'Run `modprobe ip_vs` on the node (in a container, mount /lib/modules), or use a kernel with CONFIG_IP_VS';
  throw new KernelError('modules', 'MISSING_MODULE', message);
}
