import { release } from 'node:os';
import { BUILD, VERSION } from '../../config/version.ts';
import { type IpFamily, familyLabel } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';

export interface Banner {
  readonly node: string;
  readonly families: readonly IpFamily[];
  /** The variant of iptables; undefined while it is not known. */
  readonly iptables: string | undefined;
  readonly origin: { readonly apiServer: string } | { readonly manifests: string };
}

/** Logs what a bug report needs: program, node and source of the objects, in one line. */
export function logBanner({ node, families, iptables, origin }: Banner, log: Log): void {
  log.info('kube-ipvs-proxy started', {
    version: VERSION,
    commit: BUILD.commit.slice(0, 12),
    mode: 'ipvs',
    node,
    families: families.map(familyLabel),
    iptables: iptables ?? 'unknown',
    kernel: release(),
    nodejs: process.version,
    ...origin,
  });
}
