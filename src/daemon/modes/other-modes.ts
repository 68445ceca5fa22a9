import { setTimeout } from 'node:timers/promises';
import { errorText } from '../../base/error-text.ts';
import { type Leftovers, describeLeftover } from '../../kernel/iptables/leftovers.ts';
import type { Log } from '../../observe/log.ts';

/** Delays before retries. The usual causes of a failed attempt are a held lock and low memory. */
const RETRY_AFTER_MS: readonly number[] = [2_000, 8_000, 30_000, 120_000];

/** Delay before a second look: kube-proxy creates its chains or its table only after removing our objects. */
const LOOK_AGAIN_MS = 10_000;

/** Called after another program deleted kube-ipvs0. Logs the likely cause. Never rejects. `wait` is for tests. */
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
    log.warn(
      traces.length > 0
        ? 'another program deleted kube-ipvs0, probably a kube-proxy in iptables or nftables mode, which does this when it starts. ' +
            `Stop it on this node, then remove its rules: ${traces.map(describeLeftover).join('; ')}`
        : 'another program deleted kube-ipvs0, and this node has no rules of a kube-proxy in iptables or nftables mode. ' +
            'Find out who ran `kube-proxy --cleanup`, `kube-ipvs-proxy --cleanup --force` or `ip link delete`',
    );
  } catch (error) {
    log.warn(
      'another program deleted kube-ipvs0, which exists again now. Make sure that no kube-proxy runs on this node: ' +
        `looking for its rules failed (${errorText(error)})`,
    );
  }
}

/** The timer does not keep the process alive. */
const sleepUnref = (ms: number): Promise<void> => setTimeout(ms, undefined, { ref: false });

export interface RemovalOptions {
  readonly retryAfterMs?: readonly number[];
  /** The modes to which chains of iptables may belong, for the log. */
  readonly ofChains?: string;
}

/**
 * Called after the first sync, so that a change of mode does not interrupt traffic. Removes leftovers of other modes:
 * rules of iptables mode reject traffic to Services that had no endpoint when it stopped, and those of nftables mode
 * handle service traffic before IPVS does. Never rejects.
 */
export async function removeLeftovers(
  leftovers: Pick<Leftovers, 'find' | 'remove'>,
  log: Log,
  { retryAfterMs = RETRY_AFTER_MS, ofChains = 'iptables' }: RemovalOptions = {},
): Promise<void> {
  for (const pauseMs of [...retryAfterMs, undefined]) {
    try {
      for (const leftover of await leftovers.find()) {
        await leftovers.remove(leftover);
        const mode = leftover.kind === 'nft-table' ? 'nftables' : ofChains;
        log.info(`removed the rules that kube-proxy in ${mode} mode left: ${describeLeftover(leftover)}`);
      }
      return;
    } catch (error) {
      const next = pauseMs === undefined ? 'only at the next start' : `in ${pauseMs / 1_000} s`;
      log.warn(
        `failed to find or remove rules of other kube-proxy modes: ${errorText(error)}; the next attempt is ${next}`,
      );
    }
    if (pauseMs !== undefined) await sleepUnref(pauseMs);
  }
}
