import { parseArgv } from '../../src/cli/parse-argv.ts';
import { readConfigDocument, writeConfigDocument } from '../../src/config/config-document.ts';
import { OWN_API_VERSION, OWN_KIND } from '../../src/config/own-document.ts';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import type { ProxyConfig } from '../../src/config/proxy-config.ts';
import { resolveConfig } from '../../src/config/resolve.ts';
import type { GivenSettings } from '../../src/config/flags/settings.ts';
import type { Scenario } from './scenario-file.ts';

/** What every daemon of a scenario is started with; a scenario's own flags come behind and win. */
export const commonFlags = (mode: ProxyMode): string[] => [
  `--proxy-mode=${mode}`,
  '--hostname-override=node-0',
  '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
  '--ipvs-scheduler=rr',
  mode === 'ipvs' ? '--ipvs-min-sync-period=0s' : '--iptables-min-sync-period=0s',
  // Only iptables mode serves node ports at 127.0.0.1 by rules (test/traffic/local-node-ports.test.ts).
  '--iptables-localhost-nodeports=false',
  // Only the host's own network namespace can set the maximum of tracked connections.
  '--conntrack-max-per-core=0',
];

/** The configuration of a scenario, as the daemon resolves it. */
export function configOf(scenario: Scenario, mode: ProxyMode): ProxyConfig {
  const given = givenBy(scenario, mode);
  const content = configFileOf(scenario, mode);
  if (content === undefined) return resolveConfig(given, undefined);
  const path = 'config.yaml';
  const file = { ...readConfigDocument(content, `${path} of ${scenario.name}`), path, sha256: '' };
  return resolveConfig({ ...given, config: path }, file);
}

/** A configuration file with the same settings as the flags, and the scenario's own document behind it, if it has one. */
export function configFileOf(scenario: Scenario, mode: ProxyMode): string | undefined {
  if (scenario.ownConfig === '') return undefined;
  const { settings } = resolveConfig(givenBy(scenario, mode), undefined);
  const own = `apiVersion: ${OWN_API_VERSION}\nkind: ${OWN_KIND}\n${scenario.ownConfig}`;
  return `${writeConfigDocument(settings)}---\n${own}`;
}

function givenBy({ name, flags }: Scenario, mode: ProxyMode): GivenSettings {
  const parsed = parseArgv([...commonFlags(mode), ...flags]);
  if (!parsed.ok) throw new Error(`${name}: ${parsed.errors.join('; ')}`);
  return parsed.given;
}
