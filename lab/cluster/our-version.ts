import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { PROJECT } from './folders.ts';

/** What the image that the nodes run says of itself, such as `0.2.0 at 0711086`. */
export function ourVersion(): string {
  const root = path.join(PROJECT, 'build/image');
  const program = path.join(root, 'usr/lib/kube-ipvs-proxy/kube-ipvs-proxy.mjs');
  const { stdout } = spawnSync(path.join(root, 'usr/bin/node'), [program, '--version'], { encoding: 'utf8' });
  const [, version, commit] = /v(\S+) \(commit (\w{7})/.exec(stdout) ?? [];
  if (version === undefined) throw new Error(`the image in ${root} does not tell its version: ${stdout}`);
  return `${version} at ${commit}`;
}
