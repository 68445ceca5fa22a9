import { errorText } from '../kube/error-text.ts';
import { type Leftovers, describeLeftover } from '../kernel/leftovers.ts';
import type { Log } from '../observe/log.ts';

/**
 * After the first sync, so that the change of mode leaves no gap: names what iptables mode left, and removes what nftables mode left,
 * which would catch service traffic before IPVS does. Never rejects: the node serves.
 */
export async function handleLeftovers(leftovers: Pick<Leftovers, 'find' | 'remove'>, log: Log): Promise<void> {
  try {
    for (const leftover of await leftovers.find()) {
      const what = describeLeftover(leftover);
      if (leftover.kind === 'chains') {
        log.warn(
          `kube-proxy's iptables mode has left rules that may still refuse service traffic: ${what}; remove them with ` +
            '`kube-ipvs-proxy --cleanup` before the start',
        );
        continue;
      }
      await leftovers.remove(leftover);
      log.info(`removed what kube-proxy's nftables mode left: ${what}`);
    }
  } catch (error) {
    log.warn(`what other modes of kube-proxy left could not be looked through: ${errorText(error)}`);
  }
}
