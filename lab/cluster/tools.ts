import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Cache, ClusterFolder } from './folders.ts';
import { doorKeyOf, dropbearEnvironment } from './nodes.ts';
import type { ClusterState } from './state-file.ts';

/** The scripts of a cluster for its user, with the lines that say what they are for. */
export async function writeTools(folder: ClusterFolder, cache: Cache, state: ClusterState): Promise<readonly string[]> {
  const enter = `exec nsenter --net=${state.netns} --`;
  const kubectl = path.join(folder.root, 'kubectl');
  await writeScript(kubectl, `${enter} ${quoted(state.kubectl)} ${quoted(`--kubeconfig=${state.kubeconfig}`)} "$@"`);
  const shell = path.join(folder.root, 'node-shell');
  const cases = state.nodes.map(({ name, addresses }) => `  ${name}) address=${addresses[0]} ;;`);
  const environment = dropbearEnvironment(cache).map(quoted).join(' ');
  await writeScript(
    shell,
    [
      `case "\${1:-}" in`,
      ...cases,
      `  *) echo "usage: $0 ${state.nodes.map(({ name }) => name).join('|')} [COMMAND]" >&2; exit 2 ;;`,
      'esac',
      'shift',
      'terminal=-T',
      'if [ $# -eq 0 ] && [ -t 0 ]; then terminal=-t; fi',
      `${enter} env ${environment} dbclient -q -y -y $terminal -i ${quoted(doorKeyOf(folder))} "root@$address" "$@"`,
    ].join('\n'),
  );
  return [
    `${path.relative('', kubectl)} get pods -A`,
    `${path.relative('', shell)} node-1              # a shell there, or a command after the name`,
    `ls ${path.relative('', folder.logs)}                 # of the control plane; of each node in a folder`,
  ];
}

/** A word of a shell: the checkout's path may have spaces. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

async function writeScript(file: string, text: string): Promise<void> {
  await writeFile(file, `#!/bin/sh\n${text}\n`);
  await chmod(file, 0o755);
}
