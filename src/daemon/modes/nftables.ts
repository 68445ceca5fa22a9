import { setTimeout } from 'node:timers/promises';
import { IP_FAMILIES } from '../../base/ip.ts';
import { createCommandRunner } from '../../kernel/command-runner.ts';
import { processIptablesFacts } from '../../kernel/iptables/iptables-facts.ts';
import { Leftovers } from '../../kernel/leftovers/leftovers.ts';
import type { FoundTables } from '../../kernel/leftovers/proxy-tables-here.ts';
import { createNftablesKernel, createNftablesKernelReader } from '../../kernel/nftables/nftables-kernel.ts';
import { previewOf } from '../../kernel/nftables/nft-preview.ts';
import { proxyTables } from '../../kernel/nftables/proxy-tables.ts';
import { rulesWithoutMark } from '../../plan/ipvs/plan-rules.ts';
import type { Mode, ModeParts } from './mode.ts';
import { removeLeftovers } from './other-modes.ts';
import { RetiringIpvs, chainsOfIpvs } from './retiring-ipvs.ts';

/** Milliseconds to wait for the removal of other modes' rules before the leftovers of ipvs mode are removed anyway. */
const LONGEST_WAIT_MS = 180_000;

/** Maps and sets of nf_tables. */
export const NFTABLES: Mode = {
  createKernel: createNftablesKernel,
  createReader: createNftablesKernelReader,
  previewOfNothing: (rules, parts) => previewOf(undefined, rules, parts),
  removeOthers: (parts) => {
    const retiring = new RetiringIpvs(parts, rulesWithoutMark, { rulesAreGone: true });
    // Remove the rules first: they no longer translate new connections, but could still reject them.
    void Promise.race([removeIptablesRules(parts), setTimeout(LONGEST_WAIT_MS, undefined, { ref: false })]).then(() =>
      retiring.start(),
    );
    return () => retiring.stop();
  },
  logDeleter: ({ log }) =>
    log.warn(
      'another program deleted a table kube-proxy of nf_tables, which exists again now. Find out who ran `nft flush ruleset` ' +
        'or `nft delete table`, or whether a kube-proxy starts on this node',
    ),
};

/** Removes the chains of iptables and ipvs mode. A node without any table of iptables needs no program for that. */
async function removeIptablesRules({ onProgram, log, knownLeftovers }: ModeParts): Promise<void> {
  if (!(await hasIptablesTables())) return knownLeftovers.remove('rules of other modes');
  const runner = createCommandRunner({ onStart: onProgram });
  const leftovers: Pick<Leftovers, 'find' | 'remove'> = {
    find: async () => await new Leftovers(runner, { tables: WITHOUT_OURS, chains: await chainsOfIpvs(log) }).find(),
    remove: (leftover) => new Leftovers(runner, { tables: WITHOUT_OURS }).remove(leftover),
  };
  await removeLeftovers(leftovers, log, { knownLeftovers, ofChains: 'iptables or ipvs' });
}

/** The tables of nftables mode are ours by now. */
const WITHOUT_OURS: FoundTables = { ...proxyTables(), find: () => Promise.resolve([]) };

async function hasIptablesTables(): Promise<boolean> {
  const facts = processIptablesFacts();
  for (const family of IP_FAMILIES) {
    for (const variant of ['nft', 'legacy'] as const) {
      if ((await facts.hasTables(variant, family)) !== false) return true;
    }
  }
  return false;
}
