import { setTimeout } from 'node:timers/promises';
import { doublingDelay } from '../../base/timer.ts';
import { errorText } from '../../base/text/error-text.ts';
import { type Leftovers, describeLeftover } from '../../kernel/leftovers/leftovers.ts';
import type { Log } from '../../observe/log/log.ts';
import type { KnownLeftovers } from './known-leftovers.ts';

/** Delays before retries. The usual causes of a failed attempt are a held lock and low memory. */
const FIRST_RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 600_000;

/** Delay before a second look: kube-proxy creates its chains or its table only after removing our objects. */
const LOOK_AGAIN_MS = 10_000;

/** Called after another program deleted kube-ipvs0. Logs the likely cause. Never rejects. `wait` is for tests. */
export async function logDeviceDeleter(
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
  readonly knownLeftovers: KnownLeftovers;
  /** The modes to which chains of iptables may belong, for the log. */
  readonly ofChains?: string;
  /** For tests. */
  readonly wait?: (ms: number) => Promise<unknown>;
}

/**
 * Called after the first sync, so that a change of mode does not interrupt traffic. Removes leftovers of other modes:
 * rules of iptables mode reject traffic to Services that had no endpoint when it stopped, and those of nftables mode
 * handle service traffic before IPVS does. Tries until nothing is left. Never rejects.
 */
export async function removeLeftovers(
  leftovers: Pick<Leftovers, 'find' | 'remove'>,
  log: Log,
  { knownLeftovers, ofChains = 'iptables', wait = sleepUnref }: RemovalOptions,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const failures: unknown[] = [];
      for (const leftover of await leftovers.find()) {
        try {
          await leftovers.remove(leftover);
          const mode = leftover.kind === 'nft-table' ? 'nftables' : ofChains;
          log.info(`removed the rules that kube-proxy in ${mode} mode left: ${describeLeftover(leftover)}`);
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0) throw new Error([...new Set(failures.map(errorText))].join('; '));
      knownLeftovers.remove('rules of other modes');
      return;
    } catch (error) {
      const pauseMs = doublingDelay(attempt, LONGEST_RETRY_MS, FIRST_RETRY_MS);
      const text = errorText(error);
      knownLeftovers.set('rules of other modes', text);
      log.warn(
        `failed to find or remove rules of other kube-proxy modes: ${text}; the next attempt is in ${pauseMs / 1_000} s`,
      );
      await wait(pauseMs);
    }
  }
}
