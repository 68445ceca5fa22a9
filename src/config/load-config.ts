import { readFile } from 'node:fs/promises';
import { contentHash } from './config-file-watch.ts';
import { type FlagValues, textFlag } from './flag-values.ts';
import { ConfigError, errorText } from './problem.ts';
import type { ProxyConfig } from './proxy-config.ts';
import { type ConfigFile, resolveConfig } from './resolve.ts';

async function readConfigFile(path: string): Promise<ConfigFile> {
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (error) {
    const missing = typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT';
    const reason = missing ? 'it does not exist' : errorText(error);
    throw new ConfigError([
      `cannot read the configuration file ${path}: ${reason}; check --config and that the file is mounted and readable`,
    ]);
  }
  // Only a start with --config needs the YAML reader in memory.
  const { readConfigDocument } = await import('./config-document.ts');
  return { ...readConfigDocument(content.toString('utf8'), path), path, sha256: contentHash(content) };
}

/**
 * Reads the file that the flags name, if they name one, and resolves everything.
 *
 * @throws ConfigError
 */
export async function loadConfig(flags: FlagValues): Promise<ProxyConfig> {
  const path = textFlag(flags, 'config');
  return resolveConfig(flags, path === '' ? undefined : await readConfigFile(path));
}
