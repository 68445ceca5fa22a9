import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import { escapeUnprintable, jsonDocument } from '../../base/text/escape-unprintable.ts';
import type { FleetStatusReply } from '../fleet-replies.ts';
import { redacted } from './redact.ts';

/** What was collected of one node: the texts by file name, and why some are missing. */
export interface CollectedNode {
  readonly node: string;
  readonly files: ReadonlyMap<string, string>;
  readonly missing: ReadonlyMap<string, string>;
}

/** Characters of the status of one node; usually it has a few thousand. */
const MOST_STATUS = 8 * 1024 * 1024;

export interface Collected {
  /** The program that collected it. */
  readonly collector: string;
  /** What kubectl says of its own version and the API server's. */
  readonly versions: string;
  readonly status: FleetStatusReply;
  readonly statusText: string;
  /** The whole status of each node that answers, as statusFile() returns it. */
  readonly statuses: ReadonlyMap<string, string>;
  readonly nodes: readonly CollectedNode[];
}

/** Returns the files of a support archive by path. What looks like a secret is removed from them. */
export function bundleFiles(collected: Collected): ReadonlyMap<string, string> {
  const { versions, status, statusText, statuses, nodes } = collected;
  const inOrder = nodes.toSorted((a, b) => compareText(a.node, b.node));
  const files = new Map<string, string>([
    ['status.txt', statusText],
    ['status.json', jsonDocument(status)],
    ['versions.json', versions],
  ]);
  for (const [node, reply] of statuses) files.set(`status/${fileName(node)}.json`, reply);
  for (const { node, files: own } of inOrder) {
    for (const [name, text] of own) files.set(`nodes/${fileName(node)}/${name}`, text);
  }
  const clean = new Map(
    Array.from(files)
      .map(([path, text]): [string, string] => [path, ended(redacted(text))])
      .toSorted(([a], [b]) => compareText(a, b)),
  );
  clean.set('index.md', indexPage(collected, inOrder, clean));
  return clean;
}

/** Names of nodes are DNS names; whatever else they have must not leave the folder. */
function fileName(node: string): string {
  return node.replaceAll(/[^\w.-]/g, '_').replaceAll('..', '__');
}

/** Returns the status of a node as JSON text. Throws if it is too large. */
export function statusFile(reply: object): string {
  const text = jsonDocument(reply);
  if (text.length > MOST_STATUS) throw new Error(`its status has more than ${MOST_STATUS} characters`);
  return text;
}

function ended(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

function indexPage(
  { collector, status }: Collected,
  nodes: readonly CollectedNode[],
  files: ReadonlyMap<string, string>,
): string {
  return [
    '# A support archive of kube-ipvs-proxy',
    '',
    `Collected by ${redacted(collector)}. ${redacted(status.verdict)}.`,
    '',
    'Keys, tokens, passwords and the users of URLs were removed; names and addresses of Services, endpoints and nodes were',
    'not. Read it before you give it to others.',
    '',
    '- `status.txt`, `status.json`: how the nodes differ, and which do not answer',
    '- `status/`: the status of each node',
    '- `nodes/`: of some nodes all that the daemon and the kernel say',
    '',
    ...nodes.flatMap(({ node, missing }) => [
      `## ${node}`,
      '',
      ...Array.from(files.keys())
        .filter((path) => path.startsWith(`nodes/${fileName(node)}/`))
        .map((path) => `- [${path}](${path}), ${counted(Buffer.byteLength(files.get(path) ?? ''), 'byte')}`),
      ...Array.from(missing, ([name, why]) => `- ${name} is missing: ${redacted(why)}`),
      '',
    ]),
  ]
    .map(escapeUnprintable)
    .join('\n');
}

const EPOCH = new Date(0);

/**
 * Packs texts into a tar.gz, below one folder. The bytes depend on the texts and their paths alone: order, owners, modes and
 * times are fixed.
 */
export async function packFiles(folder: string, files: ReadonlyMap<string, string>): Promise<Buffer> {
  // Only this needs the package.
  const { pack } = await import('tar-stream');
  const archive = pack();
  for (const [path, text] of Array.from(files).toSorted(([a], [b]) => compareText(a, b))) {
    archive.entry({ name: `${folder}/${path}`, mtime: EPOCH, mode: 0o600, uid: 0, gid: 0 }, text);
  }
  archive.finalize();
  return promisify(gzip)(await buffer(archive), { level: 9 });
}
