import type { Kernel } from '../kernel/kernel.ts';
import { errorText } from '../kube/error-text.ts';
import type { Log } from '../observe/log.ts';

const KEEPALIVE = 'net/ipv4/tcp_keepalive_time';

/** Seconds; of every kernel where nobody has changed them. */
const DEFAULT_TIMEOUT = 900;
const DEFAULT_KEEPALIVE = 7200;

/**
 * Says where IPVS forgets an idle TCP connection before the first keepalive of this node could hold it. Both are so by default, and most
 * programs send keepalives of their own much sooner: a line for who looks. Where somebody has changed one of the two, a warning: the
 * other was overlooked.
 */
export async function noteIdleTimeout(kernel: Pick<Kernel, 'getSysctl' | 'getIpvsTimeouts'>, log: Log): Promise<void> {
  try {
    const { tcp } = await kernel.getIpvsTimeouts();
    const keepalive = Number(await kernel.getSysctl(KEEPALIVE));
    // 0: this kernel has no TCP in IPVS. Without the sysctl there is nothing to compare with.
    if (tcp === 0 || Number.isNaN(keepalive) || tcp > keepalive) return;
    const text =
      `TCP connections through IPVS that are idle for ${tcp} s are forgotten, and reset by their next packet; the first keepalive of this ` +
      `node (net.ipv4.tcp_keepalive_time) comes after ${keepalive} s. Where idle connections must live on, set --ipvs-tcp-timeout above ` +
      `that, or have the programs send keepalives sooner`;
    if (tcp === DEFAULT_TIMEOUT && keepalive === DEFAULT_KEEPALIVE) log.info(text);
    else log.warn(text);
  } catch (error) {
    log.debug(4, `IPVS timeouts cannot be compared with the keepalive: ${errorText(error)}`);
  }
}
