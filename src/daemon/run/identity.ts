import { release } from 'node:os';
import { configurationHash } from '../../config/configuration-hash.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { BUILD, VERSION } from '../../config/version.ts';
import { familyLabel } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import type { Identity } from '../questions/status-reply.ts';
import type { UsableFamilies } from '../startup/kernel-setup.ts';
import type { OpenedSource } from '../startup/open-source.ts';

/** Returns what the subcommand status says of this process. */
export function identityOf(
  node: string,
  { families, iptables = 'unknown' }: UsableFamilies,
  config: ProxyConfig,
  { origin, apiServers }: Pick<OpenedSource, 'origin' | 'apiServers'>,
): Identity {
  return {
    node,
    mode: config.mode,
    families,
    iptables,
    scheduler: config.scheduler,
    configuration: configurationHash(config),
    source: 'apiServer' in origin ? origin.apiServer : origin.manifests,
    apiServers,
  };
}

/** Logs what a bug report needs, in one line. */
export function logStart(
  sentence: string,
  { node, mode }: Pick<Identity, 'node' | 'mode'>,
  usable: UsableFamilies,
  origin: OpenedSource['origin'],
  log: Log,
): void {
  log.info(sentence, {
    version: VERSION,
    commit: BUILD.commit.slice(0, 12),
    mode,
    node,
    families: usable.families.map(familyLabel),
    iptables: usable.iptables ?? 'unknown',
    kernel: release(),
    nodejs: process.version,
    ...origin,
  });
}
