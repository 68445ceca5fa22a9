import { release } from 'node:os';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { lasts } from '../../kernel/iptables/iptables-failure.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { errorText } from '../../base/error-text.ts';
import { type IpFamily, familyLabel } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';
import { setUpConntrack } from './conntrack-setup.ts';
import type { NodeSettings } from '../../reconcile/node-check.ts';
import { setEstimation } from './estimation.ts';
import { noteIdleTimeout } from './idle-connections.ts';
import { setTimeoutWithin, toKernelSeconds } from './kernel-timeout.ts';
import { StartupError } from './startup-error.ts';

/** Key and value; written only if the current value differs. */
type Sysctl = readonly [key: string, value: string];

/** Sysctls that service traffic requires. */
const ALWAYS: readonly Sysctl[] = [
  // Network policies and MASQUERADE work on IPVS traffic only when it is tracked.
  ['net/ipv4/vs/conntrack', '1'],
  // Flows of a deleted real server end with their next packet instead of vanishing silently.
  ['net/ipv4/vs/expire_nodest_conn', '1'],
  // Affinity to a draining real server (weight 0) ends.
  ['net/ipv4/vs/expire_quiescent_template', '1'],
  ['net/ipv4/ip_forward', '1'],
];

/** strictARP: answer ARP only for addresses of the receiving interface, and announce only those; never every VIP. */
const STRICT_ARP: readonly Sysctl[] = [
  ['net/ipv4/conf/all/arp_ignore', '1'],
  ['net/ipv4/conf/all/arp_announce', '2'],
];

/** Returns the major and minor version in a release such as "6.1.0-13-amd64"; undefined if it has none. */
export function kernelVersion(text: string): readonly [number, number] | undefined {
  const parts = /^(\d+)\.(\d+)/.exec(text);
  return parts === null ? undefined : [Number(parts[1]), Number(parts[2])];
}

/**
 * On kernels 4.1 to 5.8, conn_reuse_mode 1 delays new connections that reuse a port by a second, so it is set to 0.
 * Newer kernels do not have this bug; older ones do not have the sysctl and behave as with 0.
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

/**
 * Sets sysctls and IPVS timeouts. --init-only does this in advance, so that the daemon itself needs fewer privileges.
 * Returns the settings to keep, without conntrack settings: as with kube-proxy, an operator may change those later.
 */
export async function setUpKernel(kernel: Kernel, config: ProxyConfig, log: Log): Promise<NodeSettings> {
  await setUpConntrack(kernel, config.conntrack, log);
  const sysctls = [...ALWAYS, ...connReuse(log), ...(config.strictArp ? STRICT_ARP : [])];
  for (const [key, value] of sysctls) {
    const { changed, before } = await kernel.setSysctl(key, value);
    if (changed) log.info(`sysctl ${key.replaceAll('/', '.')} set`, { value, before });
  }
  const estimation = await setEstimation(kernel, config.runEstimation, log);
  const { tcp, tcpFin, udp } = config.ipvsTimeouts;
  const none = { tcp: 0, tcpFin: 0, udp: 0 };
  let timeouts = none;
  if (tcp > 0 || tcpFin > 0 || udp > 0) {
    try {
      for (const [name, ms] of Object.entries({ tcp, tcpFin, udp })) {
        const set = (seconds: number): Promise<void> => kernel.setIpvsTimeouts({ ...none, [name]: seconds });
        if (ms > 0) await setTimeoutWithin(`the IPVS timeout ${name}`, toKernelSeconds(ms), set, log);
      }
      const now = await kernel.getIpvsTimeouts();
      // Read back: a timeout above the maximum of the kernel was shortened.
      timeouts = { tcp: tcp > 0 ? now.tcp : 0, tcpFin: tcpFin > 0 ? now.tcpFin : 0, udp: udp > 0 ? now.udp : 0 };
      log.info('IPVS timeouts in force, in seconds', { tcp: now.tcp, tcpFin: now.tcpFin, udp: now.udp });
    } catch (error) {
      log.error(`failed to set IPVS timeouts: ${errorText(error)}`);
    }
  }
  await noteIdleTimeout(kernel, log);
  return { sysctls: [...sysctls, ...estimation], timeouts };
}

export interface UsableFamilies {
  /** The family of --bind-address comes first. */
  readonly families: readonly IpFamily[];
  /** The variant of iptables; undefined while it is not known. */
  readonly iptables: string | undefined;
}

/**
 * Returns the families whose iptables rules can be written on this node, including those whose test failed temporarily
 * (held lock, no memory): the first sync retries their rules until they are written. Throws a StartupError if there is
 * no family. crossChecks verifies that the node's own family is included.
 */
export async function usableFamilies(kernel: Kernel, config: ProxyConfig, log: Log): Promise<UsableFamilies> {
  const inOrder: readonly IpFamily[] = typeof config.nodeIpOverride === 'bigint' ? [6, 4] : [4, 6];
  const trials = await Promise.all(inOrder.map((family) => tryRules(kernel, family)));
  const usable = trials.filter(({ lasting }) => !lasting);
  const reasons = trials
    .filter(({ lasting }) => lasting)
    .map(({ family, error }) => `${familyLabel(family)} disabled: ${error}`);
  if (usable.length === 0)
    throw new StartupError(`iptables rules cannot be written on this node: ${reasons.join('; ')}`);
  for (const { family, error } of usable) {
    if (error !== undefined)
      log.warn(`iptables rules of ${familyLabel(family)} could not be tested, retrying in the first sync: ${error}`);
  }
  for (const reason of reasons) log.info(`single-stack: ${reason}`);
  return {
    families: usable.map(({ family }) => family),
    iptables: usable.find(({ variant }) => variant !== undefined)?.variant,
  };
}

interface Trial {
  readonly family: IpFamily;
  readonly variant?: string;
  readonly error?: string;
  /** A retry cannot help. */
  readonly lasting: boolean;
}

async function tryRules(kernel: Kernel, family: IpFamily): Promise<Trial> {
  if (family === 6 && (await kernel.getSysctl('net/ipv6/conf/all/forwarding')) === undefined) {
    return { family, error: 'this kernel runs without IPv6', lasting: true };
  }
  try {
    return { family, variant: await kernel.probeRules(family), lasting: false };
  } catch (error) {
    return { family, error: errorText(error), lasting: lasts(error) };
  }
}
