/** The mode of the daemon in traffic tests: TEST_MODE, ipvs by default. nftables needs a kernel with nf_tables (KERNEL=uml-nft). */
export const TEST_MODE: 'ipvs' | 'nftables' = process.env['TEST_MODE'] === 'nftables' ? 'nftables' : 'ipvs';
