import { writeFile } from 'node:fs/promises';
import { errorText } from '../config/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';

/** --write-config-to: the effective configuration as a file that --config reads back without a difference. */
export async function writeConfig(
  path: string,
  config: ProxyConfig,
  terminal: { err(line: string): void },
): Promise<number> {
  const { writeConfigDocument } = await import('../config/config-document.ts');
  try {
    // The name of a kubeconfig is no secret, but who may read this is for the owner to widen.
    await writeFile(path, writeConfigDocument(config.fields), { mode: 0o600 });
  } catch (error) {
    terminal.err(`kube-ipvs-proxy: --write-config-to: ${errorText(error)}`);
    return 1;
  }
  for (const note of config.notes) terminal.err(`kube-ipvs-proxy: ${note}`);
  terminal.err(`kube-ipvs-proxy: wrote the configuration to ${path}`);
  return 0;
}
