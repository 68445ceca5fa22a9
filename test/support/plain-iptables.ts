import { execFileSync } from 'node:child_process';

const version = execFileSync('iptables', ['--version'], { encoding: 'utf8' });

/** The variant of plain `iptables` on this test kernel: what the daemon finds on a node without rules. */
export const PLAIN_IPTABLES: 'nft' | 'legacy' = version.includes('nf_tables') ? 'nft' : 'legacy';

/** What only iptables-legacy has, and why. Its tests are no passes with iptables-nft, but `todo`. */
export const LEGACY_ONLY = {
  lock: 'iptables-nft takes no lock',
  tableModule: 'nf_tables has every table: no module of one alone can be missing',
};
