import { createNftablesKernel } from '../../kernel/nftables/nftables-kernel.ts';
import type { Mode } from './mode.ts';
import { RetiringIpvs } from './retiring-ipvs.ts';

/** Maps and sets of nf_tables. */
export const NFTABLES: Mode = {
  createKernel: createNftablesKernel,
  removeOthers: (parts) => {
    const retiring = new RetiringIpvs(parts);
    retiring.start();
    return () => retiring.stop();
  },
  nameThief: ({ log }) =>
    log.warn(
      'another program deleted a table kube-proxy of nf_tables, which exists again now. Find out who ran `nft flush ruleset` ' +
        'or `nft delete table`, or whether a kube-proxy starts on this node',
    ),
};
