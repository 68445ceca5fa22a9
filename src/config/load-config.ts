import { readFile } from 'node:fs/promises';
import { contentHash } from './config-file-watch.ts';
import { errorCode, errorText } from '../base/text/error-text.ts';
import { ConfigError } from './value/problem.ts';
import type { ProxyConfig } from './proxy-config.ts';
import { type ConfigFile, resolveConfig } from './resolve.ts';
import type { GivenSettings } from './flags/settings.ts';

async function readConfigFile(path: string): Promise<ConfigFile> {
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'it does not exist' : errorText(error);
    throw new ConfigError([
      `cannot read the configuration file ${path}: ${reason}; check --config and that the file is mounted and readable`,
    ]);
  }
  // Load the YAML parser, which takes memory, only if --config is given.
  const { readConfigDocument } = await import('./config-document.ts');
  return { ...readConfigDocument(content.toString('utf8'), path), path, sha256: contentHash(content) };
}

/**
 * Reads the file of --config, if given, and resolves the configuration.
 *
 * @throws ConfigError
 */
export async function loadConfig(given: GivenSettings): Promise<ProxyConfig> {
  return resolveConfig(given, given.config === undefined ? undefined : await readConfigFile(given.config));
}
