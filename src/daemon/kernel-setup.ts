import { release } from 'node:os';
import type { ProxyConfig } from '../config/proxy-config.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { errorText } from '../kube/error-text.ts';
import { type IpFamily, familyLabel } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import { setUpConntrack } from './conntrack-setup.ts';
import { setEstimation } from './estimation.ts';
import { noteIdleTimeout } from './idle-connections.ts';
import { StartupError } from './startup-error.ts';

/** Key and value; written only where the kernel has another value. */
type Sysctl = readonly [key: string, value: string];

/** What service traffic cannot do without. */
const ALWAYS: readonly Sysctl[] = [
  // Network policies and MASQUERADE work on IPVS traffic only when it is tracked.
  ['net/ipv4/vs/conntrack', '1'],
  // Flows of a deleted real server end with their next packet instead of vanishing silently.
  ['net/ipv4/vs/expire_nodest_conn', '1'],
  // Affinity to a draining real server (weight 0) ends.
  ['net/ipv4/vs/expire_quiescent_template', '1'],
  ['net/ipv4/ip_forward', '1'],
];

/** strictARP: answer ARP only for addresses of the interface asked, and announce only those: not for every VIP. */
const STRICT_ARP: readonly Sysctl[] = [
  ['net/ipv4/conf/all/arp_ignore', '1'],
  ['net/ipv4/conf/all/arp_announce', '2'],
];

/** Whole version "major.minor" of a release string such as "6.1.0-13-amd64"; undefined when it has none. */
export function kernelVersion(text: string): readonly [number, number] | undefined {
  const parts = /^(\d+)\.(\d+)/.exec(text);
  return parts === null ? undefined : [Number(parts[1]), Number(parts[2])];
}

/**
 * conn_reuse_mode 1 delays new connections that reuse a port by a second on kernels 4.1 to 5.8: 0 there; newer kernels
 * have it right, older ones have only 0.
 */
function connReuse(log: Log): readonly Sysctl[] {
  const version = kernelVersion(release());
  if (version === undefined) throw new StartupError(`the kernel release "${release()}" has no version number`);
  const [major, minor] = version;
  if (major > 5 || (major === 5 && minor >= 9)) return [];
  if (major > 4 || (major === 4 && minor >= 1)) return [['net/ipv4/vs/conn_reuse_mode', '0']];
  log.error(`kernel ${release()} is older than 4.1: connections that reuse a port may go to removed endpoints`);
  return [];
}

/** Sysctls and IPVS timeouts: what --init-only does, so that the daemon proper needs fewer rights. */
export async function setUpKernel(kernel: Kernel, config: ProxyConfig, log: Log): Promise<void> {
  await setUpConntrack(kernel, config.conntrack, log);
  const sysctls = [...ALWAYS, ...connReuse(log), ...(config.strictArp ? STRICT_ARP : [])];
  for (const [key, value] of sysctls) {
    const { changed, before } = await kernel.setSysctl(key, value);
    if (changed) log.info(`sysctl ${key.replaceAll('/', '.')} set`, { value, before });
  }
  await setEstimation(kernel, config.runEstimation, log);
  const { tcp, tcpFin, udp } = config.ipvsTimeouts;
  if (tcp > 0 || tcpFin > 0 || udp > 0) {
    const seconds = { tcp: toSeconds(tcp), tcpFin: toSeconds(tcpFin), udp: toSeconds(udp) };
    try {
      await kernel.setIpvsTimeouts(seconds);
      const now = await kernel.getIpvsTimeouts();
      log.info('IPVS timeouts in force, in seconds', { tcp: now.tcp, tcpFin: now.tcpFin, udp: now.udp });
    } catch (error) {
      log.error(`IPVS timeouts could not be set: ${String(error)}`);
    }
  }
  await noteIdleTimeout(kernel, log);
}

function toSeconds(ms: number): number {
  return Math.trunc(ms / 1_000);
}

/**
 * The families for which rules can be written here, the one of --bind-address first. A StartupError when there is none; whether the
 * node's own family is among them is for crossChecks, which knows it.
 */
export async function usableFamilies(kernel: Kernel, config: ProxyConfig, log: Log): Promise<readonly IpFamily[]> {
  const inOrder: readonly IpFamily[] = typeof config.nodeIpOverride === 'bigint' ? [6, 4] : [4, 6];
  const usable: IpFamily[] = [];
  const reasons: string[] = [];
  const answers = await Promise.all(inOrder.map((family) => whyUnusable(kernel, family)));
  for (const [at, family] of inOrder.entries()) {
    const reason = answers[at];
    if (reason === undefined) usable.push(family);
    else reasons.push(`${familyLabel(family)}: ${reason}`);
  }
  if (usable.length === 0) throw new StartupError(`no rules can be written on this node: ${reasons.join('; ')}`);
  for (const reason of reasons) log.info(`one family only is served here, ${reason}`);
  return usable;
}

async function whyUnusable(kernel: Kernel, family: IpFamily): Promise<string | undefined> {
  if (family === 6 && (await kernel.getSysctl('net/ipv6/conf/all/forwarding')) === undefined) {
    return 'this kernel runs without it';
  }
  try {
    await kernel.probeRules(family);
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}
