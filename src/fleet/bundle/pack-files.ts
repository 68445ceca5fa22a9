import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { compareText } from '../../base/text/compare-text.ts';

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
