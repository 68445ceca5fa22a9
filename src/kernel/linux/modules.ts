import { errorText } from '../../base/text/error-text.ts';
import { existsSync } from 'node:fs';
import type { CommandRunner } from '../command-runner.ts';
import { KernelError } from '../kernel-error.ts';

/** Exists only while ip_vs is loaded or built in. */
const IP_VS_FILE = '/proc/net/ip_vs';

export interface ModulesOptions {
  readonly runner: CommandRunner;
  /** Whether a file exists; for tests. */
  readonly exists?: (path: string) => boolean;
}

/**
 * Programs that make the kernel load ip_vs. modprobe needs CAP_SYS_MODULE and /lib/modules. iptables needs CAP_NET_ADMIN
 * only: it asks the kernel for the match ipvs and changes no rule; the kernel then loads xt_ipvs, which depends on ip_vs.
 */
const LOADERS: readonly (readonly [program: string, ...args: readonly string[]])[] = [
  ['modprobe', '--', 'ip_vs'],
  ['iptables-nft', '-m', 'ipvs', '--help'],
  ['iptables-legacy', '-m', 'ipvs', '--help'],
];

/**
 * Loads ip_vs if it is missing; starts no process otherwise. The kernel itself loads schedulers, set types, the dummy
 * driver and conntrack's netlink interface at their first use.
 */
export async function loadModules({ runner, exists = existsSync }: ModulesOptions): Promise<void> {
  if (exists(IP_VS_FILE)) return;
  const reasons: string[] = [];
  for (const [program, ...args] of LOADERS) {
    try {
      const { status, stderr } = await runner.run(program, args);
      if (exists(IP_VS_FILE)) return;
      reasons.push(stderr.trim() || `${program} ended with status ${status}, and ${IP_VS_FILE} is still missing`);
    } catch (error) {
      reasons.push(errorText(error));
    }
  }
  // The first reason is that of modprobe, which is the most useful one.
  const [reason] = reasons;
  const message =
    `the kernel module ip_vs is not loaded, and loading it failed: ${reason}. ` +
    'Run `modprobe ip_vs` on the node (in a container, mount /lib/modules), delete the Pod if its init container runs ' +
    '--init-only, or use a kernel with CONFIG_IP_VS';
  throw new KernelError('modules', 'MISSING_MODULE', message);
}

/** Loads fou, which the kernel does not load by itself. Resolves to why that failed. */
export async function loadFou(runner: CommandRunner): Promise<string | undefined> {
  try {
    const { status, stderr } = await runner.run('modprobe', ['--', 'fou']);
    return status === 0 ? undefined : stderr.trim() || `modprobe ended with status ${status}`;
  } catch (error) {
    return errorText(error);
  }
}

/** Rejects if ip_vs is not loaded. Loads nothing. */
export async function requireIpvs(exists = existsSync): Promise<void> {
  await Promise.resolve();
  if (exists(IP_VS_FILE)) return;
  const message =
    'the kernel module ip_vs is not loaded, and a dry run loads no module: there is no kube-proxy in ipvs mode on this ' +
    'node to compare with. Run `modprobe ip_vs` to compare all the same';
  throw new KernelError('modules', 'MISSING_MODULE', message);
}
