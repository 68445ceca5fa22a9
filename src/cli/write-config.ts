import { writeFile } from 'node:fs/promises';
import { DEFAULT_ANNOTATIONS } from '../base/service/service-annotations.ts';
import { errorCode, errorText } from '../base/text/error-text.ts';
import type { OwnFields } from '../config/own-document.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';

/** Writes the effective configuration to a file that --config accepts; the path "-" means stdout. */
export async function writeConfig(
  path: string,
  config: ProxyConfig,
  terminal: { out(line: string): void; err(line: string): void },
): Promise<number> {
  const { writeConfigDocument } = await import('../config/config-document.ts');
  const text = writeConfigDocument(config.settings, changedOwnFields(config));
  const toStdout = path === '-';
  try {
    // Only the owner may read the new file, and may widen its permissions.
    if (toStdout) terminal.out(text.trimEnd());
    else await writeFile(path, text, { mode: 0o600 });
  } catch (error) {
    terminal.err(
      `kube-ipvs-proxy: --write-config-to: cannot write ${path}: ${errorCode(error) === 'ENOENT' ? 'its folder does not exist' : errorText(error)}`,
    );
    return 1;
  }
  for (const note of config.notes) terminal.err(`kube-ipvs-proxy: ${note}`);
  if (!toStdout) terminal.err(`kube-ipvs-proxy: wrote the configuration to ${path}`);
  return 0;
}

/** Returns the fields of our own that differ from their defaults: without any, the file is one of kube-proxy's. */
function changedOwnFields({
  ownFields: { endpointCheck, serviceAnnotations, serviceDefaults },
}: ProxyConfig): OwnFields {
  return {
    ...(endpointCheck === 'off' ? {} : { endpointCheck }),
    ...(serviceAnnotations.join() === DEFAULT_ANNOTATIONS.join() ? {} : { serviceAnnotations }),
    ...(serviceDefaults.length === 0 ? {} : { serviceDefaults }),
  };
}
