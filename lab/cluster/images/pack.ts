import { createHash } from 'node:crypto';
import {
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { tar } from '../../../scripts/image/tar.ts';
import type { Image, Layer } from './image.ts';

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Packs images into one archive in the format of `docker save`, which `ctr images import` and `docker load` read. A layer
 * that several images share (the same object) is stored once. The archive appears at `out` only when it is complete.
 */
export async function packImages(out: string, images: readonly Image[]): Promise<void> {
  mkdirSync(path.dirname(out), { recursive: true });
  const work = mkdtempSync(`${out}.`);
  try {
    const content = path.join(work, 'content');
    mkdirSync(content);
    const layers = new Map<Layer, string>();
    for (const layer of images.flatMap((image) => image.layers)) {
      if (!layers.has(layer)) layers.set(layer, await packLayer(layer, work, content));
    }
    const manifest = images.map((image) => {
      const digests = image.layers.map((layer) => layers.get(layer) ?? '');
      const config = imageConfig(image, digests);
      const name = `${createHash('sha256').update(config).digest('hex')}.json`;
      writeFileSync(path.join(content, name), config);
      return { Config: name, RepoTags: image.names, Layers: digests.map(layerFile) };
    });
    writeFileSync(path.join(content, 'manifest.json'), JSON.stringify(manifest));
    const archive = path.join(work, 'archive.tar');
    tar(archive, content, ['--mode=0644', ...readdirSync(content).toSorted()]);
    renameSync(archive, out);
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** Returns the SHA-256 digest of the layer's archive, which is also its name in `content`. */
async function packLayer(layer: Layer, work: string, content: string): Promise<string> {
  const archive = path.join(work, 'layer.tar');
  if ('folder' in layer) {
    tar(archive, layer.folder, ['.']);
  } else {
    const links = mkdtempSync(path.join(work, 'files-'));
    for (const [name, source] of Object.entries(layer.files)) {
      mkdirSync(path.join(links, path.dirname(name)), { recursive: true });
      symlinkSync(path.resolve(source), path.join(links, name));
    }
    tar(archive, links, ['--dereference', ...Object.keys(layer.files).map((name) => path.join('.', name))]);
  }
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(archive)) hash.update(chunk as Buffer);
  const digest = hash.digest('hex');
  renameSync(archive, path.join(content, layerFile(digest)));
  return digest;
}

function layerFile(digest: string): string {
  return `${digest}.tar`;
}

function imageConfig(image: Image, digests: readonly string[]): string {
  return JSON.stringify({
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    os: 'linux',
    config: { Env: [PATH], Entrypoint: image.entrypoint ?? [], Cmd: image.cmd ?? [] },
    rootfs: { type: 'layers', diff_ids: digests.map((digest) => `sha256:${digest}`) },
    history: digests.map(() => ({ created_by: 'lab/cluster/images/pack.ts' })),
  });
}
