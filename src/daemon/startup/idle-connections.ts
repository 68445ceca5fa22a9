import type { Kernel } from '../../kernel/kernel.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { Log } from '../../observe/log/log.ts';

const KEEPALIVE = 'net/ipv4/tcp_keepalive_time';

/** Kernel defaults, in seconds. */
const DEFAULT_TIMEOUT = 900;
const DEFAULT_KEEPALIVE = 7200;

/**
 * Logs that IPVS expires an idle TCP connection before the node's first keepalive. With the kernel defaults, this is
 * only informational, because most programs send keepalives much sooner. If one of the two values was changed, it is a
 * warning: the other one was probably overlooked.
 */
export async function noteIdleTimeout(kernel: Pick<Kernel, 'getSysctl' | 'getIpvsTimeouts'>, log: Log): Promise<void> {
  try {
    const { tcp } = await kernel.getIpvsTimeouts();
    const keepalive = Number(await kernel.getSysctl(KEEPALIVE));
    // 0: IPVS in this kernel has no TCP support. NaN: the sysctl does not exist.
    if (tcp === 0 || Number.isNaN(keepalive) || tcp > keepalive) return;
    const text =
      `TCP connections through IPVS that are idle for ${tcp} s are forgotten, and reset by their next packet; the first keepalive of this ` +
      `node (net.ipv4.tcp_keepalive_time) comes after ${keepalive} s. To keep idle connections, either set --ipvs-tcp-timeout above ` +
      `${keepalive} s, or make the programs send keepalives sooner`;
    if (tcp === DEFAULT_TIMEOUT && keepalive === DEFAULT_KEEPALIVE) log.info(text);
    else log.warn(text);
  } catch (error) {
    log.debug(4, `failed to compare IPVS timeouts with the keepalive: ${errorText(error)}`);
  }
}
