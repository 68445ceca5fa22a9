import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { BenchNode } from './bench-node.ts';
import { NetnsShell } from './netns-shell.ts';
import type { Programmed } from './programmed.ts';

/** Runs shell lines that read the files, in the node; answers the milliseconds of all of them. */
async function timedWithFiles(
  node: BenchNode,
  files: Readonly<Record<string, string>>,
  line: (folder: string) => string,
): Promise<number> {
  await using shell = new NetnsShell(node.path);
  return await timedInShell(shell, files, line);
}

async function timedInShell(
  shell: NetnsShell,
  files: Readonly<Record<string, string>>,
  line: (folder: string) => string,
): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tools-'));
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text);
    return (await shell.time(line(folder))).wallMs;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The whole state by the batch modes of the system's tools, three processes. Milliseconds. */
export async function restoreByTools(node: BenchNode, state: Programmed): Promise<number> {
  const { ipvs, sets, addresses } = state;
  return await timedWithFiles(
    node,
    { ipvs, sets, addresses },
    (folder) => `ipset restore <${folder}/sets; ipvsadm -R <${folder}/ipvs; ip -batch ${folder}/addresses`,
  );
}

/** Commands of nft in one transaction. Milliseconds. */
export async function executeByNft(shell: NetnsShell, commands: string): Promise<number> {
  return await timedInShell(shell, { commands }, (folder) => `nft -f ${folder}/commands`);
}

/** Sets and entries by an `ipset` process each. Milliseconds. */
export async function addByProcesses(node: BenchNode, sets: string): Promise<number> {
  const script = sets
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => `ipset ${line.replaceAll(/[^\w .:/,-]/g, '')}\n`)
    .join('');
  return await timedWithFiles(node, { script }, (folder) => `. ${folder}/script`);
}
