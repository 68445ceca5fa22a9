import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Image } from './image.ts';
import { imageKey } from './image-key.ts';
import { clusterImages } from './list.ts';
import { packImages } from './pack.ts';
import { collectSources } from './sources.ts';

/** Where the archives of a cluster are. */
export interface ImageFolders {
  /** The cache that all checkouts share, such as `~/.cache/kube-ipvs-proxy`. */
  readonly cache: string;
  /** Folder for the image of this checkout. All other archives go to `CACHE/kubernetes/VERSION/images`. */
  readonly ours: string;
}

/** Packs the images of the test cluster whose sources have changed, and returns the archives that were written. */
export async function packClusterImages(kubernetes: string, { cache, ours }: ImageFolders): Promise<string[]> {
  const shared = path.join(cache, 'kubernetes', kubernetes, 'images');
  const sources = collectSources(cache, kubernetes);
  const written: string[] = [];
  for (const [name, images] of Object.entries(clusterImages(sources))) {
    const archive = path.join(shared, `${name}.tar`);
    if (await packIfChanged(archive, images)) written.push(archive);
  }
  // The archive that users get.
  mkdirSync(ours, { recursive: true });
  copyFileSync(sources.ours, path.join(ours, 'ours.tar'));
  return written;
}

/** Packs an archive unless its sources are those of the last time; the file ARCHIVE.key tells. */
export async function packIfChanged(archive: string, images: readonly Image[]): Promise<boolean> {
  const keyFile = `${archive}.key`;
  const key = imageKey(images);
  if (existsSync(archive) && existsSync(keyFile) && readFileSync(keyFile, 'utf8') === key) return false;
  mkdirSync(path.dirname(archive), { recursive: true });
  await packImages(archive, images);
  writeFileSync(keyFile, key);
  return true;
}
