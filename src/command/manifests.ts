import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { errorText } from '../base/text/error-text.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { listManifests } from '../kube/manifests/manifest-directory.ts';
import { type ManifestObject, readManifests } from '../kube/manifests/manifest-file.ts';
import { mergeManifests, replacedEvents } from '../kube/manifests/manifest-set.ts';
import { PlaceholderIps } from '../kube/manifests/placeholder-ips.ts';
import { Interner } from '../kube/objects/interner.ts';
import { Cluster } from '../model/cluster.ts';

import { UsageError } from './usage-error.ts';

/**
 * Reads a directory, a file, or standard input ("-"). Services without a cluster IP get a placeholder, and a note says so.
 * Throws a UsageError if anything cannot be read.
 */
export async function clusterOf(
  path: string,
  nodeName: string,
  { serviceAnnotations, serviceDefaults }: Pick<ProxyConfig, 'serviceAnnotations' | 'serviceDefaults'>,
): Promise<{
  readonly cluster: Cluster;
  readonly warnings: readonly string[];
  readonly notes: readonly string[];
}> {
  const interner = new Interner();
  const placeholders = new PlaceholderIps();
  const files = new Map<string, readonly ManifestObject[]>();
  const warnings: string[] = [];
  for (const [name, content] of await contentsOf(path)) {
    const file = readManifests(content, nodeName, interner, { defaults: serviceDefaults }, (service) =>
      placeholders.give(service),
    );
    if (!file.ok) throw new UsageError(`${name}:${file.line}:${file.column} is not valid YAML: ${file.message}`);
    for (const warning of file.warnings) warnings.push(`${name}: ${warning}`);
    files.set(name, file.objects);
  }
  const { set, conflicts } = mergeManifests(files);
  const cluster = new Cluster(nodeName, serviceAnnotations);
  for (const event of replacedEvents(set)) cluster.apply(event);
  return { cluster, warnings: [...warnings, ...conflicts], notes: placeholders.notes };
}

async function contentsOf(path: string): Promise<readonly (readonly [name: string, content: string])[]> {
  try {
    if (path === '-') return [['standard input', await text(process.stdin)]];
    if (!(await stat(path)).isDirectory()) return [[path, await readFile(path, 'utf8')]];
    const names = [...(await listManifests(path)).keys()];
    return await Promise.all(names.map(async (name) => [name, await readFile(join(path, name), 'utf8')] as const));
  } catch (error) {
    throw new UsageError(`cannot read ${path}: ${errorText(error)}`);
  }
}
