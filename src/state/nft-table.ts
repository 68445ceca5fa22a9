import type { IpFamily } from '../base/ip.ts';

/** The name of our table of nf_tables in both families, which is that of kube-proxy. */
export const TABLE = 'kube-proxy';

export const TABLE_COMMENT = 'rules of kube-ipvs-proxy in the manner of kube-proxy';

export function nftFamily(family: IpFamily): string {
  return family === 4 ? 'ip' : 'ip6';
}

/** Returns our table as nft names it: "ip kube-proxy". */
export function nftTable(family: IpFamily): string {
  return `${nftFamily(family)} ${TABLE}`;
}
