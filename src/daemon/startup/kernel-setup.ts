import { MODES } from '../../base/proxy-mode.ts';
import { release } from 'node:os';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { isPermanent } from '../../kernel/iptables/iptables-failure.ts';
import type { IpvsTimeouts, Kernel, KernelReader } from '../../kernel/kernel.ts';
import { errorText } from '../../base/text/error-text.ts';
import { type IpFamily, familyLabel } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { type OnRefused, setUpConntrack, wantedConntrack } from './conntrack-setup.ts';
import { NO_SETTINGS, type NodeSettings } from '../../reconcile/node/node-settings.ts';
import { setEstimation, wantedEstimation } from './estimation.ts';
import { noteIdleTimeout } from './idle-connections.ts';
import { setTimeoutWithin, toKernelSeconds } from './kernel-timeout.ts';
import { StartupError } from './startup-error.ts';
import { selectsLocalnet } from '../../plan/node-port-addresses.ts';
import { setSysctl } from './set-sysctl.ts';

/** Key and value; written only if the current value differs. */
type Sysctl = readonly [key: string, value: string];

const FORWARDING: readonly Sysctl[] = [['net/ipv4/ip_forward', '1']];

/** Lets connections from 127.0.0.1 leave through other interfaces, translated. */
const ROUTE_LOCALNET: Sysctl = ['net/ipv4/conf/all/route_localnet', '1'];

/** Sysctls that service traffic through IPVS requires. */
const OF_IPVS: readonly Sysctl[] = [
  // Network policies and MASQUERADE work on IPVS traffic only when it is tracked.
  ['net/ipv4/vs/conntrack', '1'],
  // Connections to a deleted real server expire at their next packet, instead of silently losing packets.
  ['net/ipv4/vs/expire_nodest_conn', '1'],
  // Session affinity to a draining real server (weight 0) ends.
  ['net/ipv4/vs/expire_quiescent_template', '1'],
  ...FORWARDING,
];

/** strictARP: answer ARP requests only for addresses of the receiving interface, and announce only those addresses. */
const STRICT_ARP: readonly Sysctl[] = [
  ['net/ipv4/conf/all/arp_ignore', '1'],
  ['net/ipv4/conf/all/arp_announce', '2'],
];

/**
 * On kernels 4.1 to 5.8, conn_reuse_mode 1 delays new connections that reuse a port by a second, so it is set to 0.
 * Newer kernels do not have this bug; older ones do not have the sysctl.
 *
 * @param kernelRelease such as "6.1.0-13-amd64"
 */
export function connReuse(kernelRelease: string): readonly Sysctl[] {
  const [major, minor = 0] = kernelRelease.split('.', 2).map((part) => Number.parseInt(part, 10));
  const affected = major === 4 ? minor >= 1 : major === 5 && minor <= 8;
  return affected ? [['net/ipv4/vs/conn_reuse_mode', '0']] : [];
}

/**
 * Sets sysctls and IPVS timeouts. --init-only does this in advance, so that the daemon itself needs fewer privileges.
 * Returns the settings to keep, without conntrack settings: as with kube-proxy, an operator may change those later.
 */
export async function setUpKernel(
  kernel: Kernel,
  config: ProxyConfig,
  log: Log,
  onRefused?: OnRefused,
): Promise<NodeSettings> {
  await setUpConntrack(kernel, config.conntrack, log, onRefused);
  const sysctls = serviceSysctls(config);
  for (const [key, value] of sysctls) await setSysctl(kernel, key, value, log);
  if (!MODES[config.mode].hasIpvs) return { sysctls, timeouts: NO_SETTINGS.timeouts };
  const estimation = await setEstimation(kernel, config.runEstimation, log);
  const timeouts = await setIpvsTimeouts(kernel, config, log);
  await noteIdleTimeout(kernel, log);
  return { sysctls: [...sysctls, ...estimation], timeouts };
}

function serviceSysctls({ mode, strictArp, localhostNodePorts, nodePortAddresses }: ProxyConfig): readonly Sysctl[] {
  const { hasIpvs, routesLocalnet = false } = MODES[mode];
  if (routesLocalnet && localhostNodePorts && selectsLocalnet(nodePortAddresses))
    return [...FORWARDING, ROUTE_LOCALNET];
  if (!hasIpvs) return FORWARDING;
  return [...OF_IPVS, ...connReuse(release()), ...(strictArp ? STRICT_ARP : [])];
}

/** Returns the settings that setUpKernel would make. Only reads. */
export async function wantedSettings(
  kernel: Pick<KernelReader, 'getSysctl'>,
  config: ProxyConfig,
): Promise<NodeSettings> {
  const { ipvsTimeouts: timeouts, runEstimation } = config;
  const sysctls = [...(await wantedConntrack(kernel, config.conntrack)), ...serviceSysctls(config)];
  if (!MODES[config.mode].hasIpvs) return { sysctls, timeouts: NO_SETTINGS.timeouts };
  return {
    sysctls: [...sysctls, ...(await wantedEstimation(kernel, runEstimation))],
    timeouts: {
      tcp: toKernelSeconds(timeouts.tcp),
      tcpFin: toKernelSeconds(timeouts.tcpFin),
      udp: toKernelSeconds(timeouts.udp),
    },
  };
}

/** Sets the configured timeouts. Returns them as the kernel has them, and 0 for the others. Logs a failure only. */
async function setIpvsTimeouts(kernel: Kernel, config: ProxyConfig, log: Log): Promise<IpvsTimeouts> {
  const none: IpvsTimeouts = { tcp: 0, tcpFin: 0, udp: 0 };
  const wanted = (['tcp', 'tcpFin', 'udp'] as const).filter((name) => config.ipvsTimeouts[name] > 0);
  if (wanted.length === 0) return none;
  try {
    for (const name of wanted) {
      const set = (seconds: number): Promise<void> => kernel.setIpvsTimeouts({ ...none, [name]: seconds });
      await setTimeoutWithin(`the IPVS timeout ${name}`, toKernelSeconds(config.ipvsTimeouts[name]), set, log);
    }
    // Read the timeouts back: those above the maximum of the kernel were shortened.
    const { tcp, tcpFin, udp } = await kernel.getIpvsTimeouts();
    const now = { tcp, tcpFin, udp };
    log.info('IPVS timeouts in force, in seconds', now);
    return { ...none, ...Object.fromEntries(wanted.map((name) => [name, now[name]])) };
  } catch (error) {
    log.error(`failed to set IPVS timeouts, the next attempt is only at the next start: ${errorText(error)}`);
    return none;
  }
}

export interface UsableFamilies {
  /** The family of --bind-address comes first. */
  readonly families: readonly IpFamily[];
  /** The variant of iptables; undefined while it is not known. */
  readonly iptables: string | undefined;
}

type RuleProbe = Pick<Kernel, 'getSysctl' | 'probeRules'>;

/**
 * Returns the families whose iptables rules can be written on this node, including those whose test failed temporarily
 * (held lock, no memory): the first sync retries their rules until they are written. Throws a StartupError if there is
 * no family. crossChecks verifies that the node's own family is included.
 */
export async function usableFamilies(kernel: RuleProbe, config: ProxyConfig, log: Log): Promise<UsableFamilies> {
  const inOrder: readonly IpFamily[] = typeof config.nodeIpOverride === 'bigint' ? [6, 4] : [4, 6];
  const trials = await Promise.all(inOrder.map((family) => tryRules(kernel, family)));
  const usable = trials.filter(({ lasting }) => !lasting);
  const disabled = trials.filter(({ lasting }) => lasting);
  const { rules: where, hasIpvs } = MODES[config.mode];
  const rules = where === 'nf_tables' ? 'rules of nf_tables' : 'iptables rules';
  if (usable.length === 0) {
    const reasons = disabled.map(({ family, error }) => `${familyLabel(family)}: ${error}`);
    const either = 'of either IP family on this node';
    const hint = where === 'iptables' && !hasIpvs ? '. --proxy-mode=nftables needs no iptables' : '';
    throw new StartupError(`cannot write ${rules} ${either}: ${reasons.join('; ')}${hint}`);
  }
  for (const { family, error } of usable) {
    if (error === undefined) continue;
    log.warn(
      `failed to test whether ${rules} of ${familyLabel(family)} can be written; the first sync tries again: ${error}`,
    );
  }
  for (const { family, error } of disabled) {
    log.info(
      `${familyLabel(family)} is not served on this node, so Services get no virtual servers of this family: ${error}`,
    );
  }
  return {
    families: usable.map(({ family }) => family),
    iptables: usable.find(({ variant }) => variant !== undefined)?.variant,
  };
}

interface Trial {
  readonly family: IpFamily;
  readonly variant?: string;
  readonly error?: string;
  /** Whether the failure is permanent. */
  readonly lasting: boolean;
}

async function tryRules(kernel: RuleProbe, family: IpFamily): Promise<Trial> {
  const error = family === 6 ? await whyWithoutIpv6(kernel) : undefined;
  if (error !== undefined) return { family, error, lasting: true };
  try {
    return { family, variant: await kernel.probeRules(family), lasting: false };
  } catch (error) {
    return { family, error: errorText(error), lasting: isPermanent(error) };
  }
}

/** Returns why this node has no IPv6; undefined if it has. As in kube-proxy, read at the start only. */
async function whyWithoutIpv6(kernel: Pick<RuleProbe, 'getSysctl'>): Promise<string | undefined> {
  const disabled = await kernel.getSysctl('net/ipv6/conf/all/disable_ipv6');
  if (disabled === undefined) return 'this kernel runs without IPv6';
  return disabled === '1' ? 'the sysctl net.ipv6.conf.all.disable_ipv6 is 1' : undefined;
}
