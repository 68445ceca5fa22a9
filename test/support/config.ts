import { parseArgv } from '../../src/cli/parse-argv.ts';
import type { ProxyConfig } from '../../src/config/proxy-config.ts';
import { resolveConfig } from '../../src/config/resolve.ts';

/** Returns the configuration for these flags, as the program resolves it. */
export function configOf(...flags: readonly string[]): ProxyConfig {
  const parsed = parseArgv(['--proxy-mode=ipvs', ...flags]);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  return resolveConfig(parsed.given, undefined);
}
