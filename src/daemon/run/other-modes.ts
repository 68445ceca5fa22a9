import { setTimeout } from 'node:timers/promises';
import { errorText } from '../../base/error-text.ts';
import { type Leftovers, describeLeftover } from '../../kernel/iptables/leftovers.ts';
import type { Log } from '../../observe/log.ts';

/** Delays before retries. The usual causes of a failed attempt are a held lock and low memory. */
const RETRY_AFTER_MS: readonly number[] = [2_000, 8_000, 30_000, 120_000];

/** kube-proxy creates its chains or its table only after it has removed our objects. */
const LOOK_AGAIN_MS = 10_000;

/**
 * Called after another program deleted kube-ipvs0. Logs the likely cause. Never rejects. `wait` is for tests.
 */
export async function nameDeviceThief(
  leftovers: Pick<Leftovers, 'find'>,
  log: Log,
  wait: (ms: number) => Promise<unknown> = sleepUnref,
): Promise<void> {
  try {
    let traces = await leftovers.find();
    if (traces.length === 0) {
      await wait(LOOK_AGAIN_MS);
      traces = await leftovers.find();
    }
    const likely =
      traces.length > 0
        ? 'the likely cause is a kube-proxy in iptables or nftables mode: it flushes IPVS and deletes kube-ipvs0 when it starts. Stop it on ' +
          `this node, then remove what it wrote. Its traces: ${traces.map(describeLeftover).join('; ')}`
        : 'no traces of a kube-proxy in iptables or nftables mode were found. Look for `kube-proxy --cleanup`, `kube-ipvs-proxy --cleanup ' +
          '--force`, or an administrator';
    log.warn(`another program deleted kube-ipvs0: ${likely}`);
  } catch (error) {
    log.warn(
      `another program deleted kube-ipvs0, and looking for traces of other kube-proxy modes failed: ${errorText(error)}`,
    );
  }
}

async function sleepUnref(ms: number): Promise<void> {
  await setTimeout(ms, undefined, { ref: false });
}

/**
 * Called after the first sync, so that a change of mode does not interrupt traffic. Logs leftovers of iptables mode.
 * Removes leftovers of nftables mode, which would handle service traffic before IPVS does. Never rejects.
 */
export async function handleLeftovers(
  leftovers: Pick<Leftovers, 'find' | 'remove'>,
  log: Log,
  retryAfterMs: readonly number[] = RETRY_AFTER_MS,
): Promise<void> {
  const named = new Set<string>();
  for (const pauseMs of [...retryAfterMs, undefined]) {
    try {
      await handleOnce(leftovers, log, named);
      return;
    } catch (error) {
      const next = pauseMs === undefined ? 'no retry before the next start' : `next attempt in ${pauseMs / 1_000} s`;
      log.warn(`failed to find or remove leftovers of other kube-proxy modes, ${next}: ${errorText(error)}`);
    }
    // The timer does not keep the process alive.
    if (pauseMs !== undefined) await setTimeout(pauseMs, undefined, { ref: false });
  }
}

async function handleOnce(leftovers: Pick<Leftovers, 'find' | 'remove'>, log: Log, named: Set<string>): Promise<void> {
  for (const leftover of await leftovers.find()) {
    const what = describeLeftover(leftover);
    if (leftover.kind === 'nft-table') {
      await leftovers.remove(leftover);
      log.info(`removed leftovers of kube-proxy's nftables mode: ${what}`);
    } else if (!named.has(what)) {
      named.add(what);
      log.warn(
        `kube-proxy's iptables mode has left rules that may still refuse service traffic: ${what}; remove them with ` +
          '`kube-ipvs-proxy --cleanup` before the start',
      );
    }
  }
}
