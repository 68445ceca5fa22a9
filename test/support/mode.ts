import { type ProxyMode, isMode } from '../../src/base/proxy-mode.ts';

/** The mode of the daemon in traffic tests: TEST_MODE, ipvs by default. nftables and userspace need a kernel with nf_tables (KERNEL=uml-nft). */
export const TEST_MODE: ProxyMode = modeOf(process.env['TEST_MODE']);

function modeOf(text: string | undefined): ProxyMode {
  return text !== undefined && isMode(text) ? text : 'ipvs';
}
