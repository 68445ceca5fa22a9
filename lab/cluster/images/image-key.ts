import { type Stats, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { createHash } from 'node:crypto';
import path from 'node:path';
import type { Image, Layer } from './image.ts';

/** A digest of everything that an archive of these images depends on: it changes if a file's size, mode or time does. */
export function imageKey(images: readonly Image[]): string {
  const hash = createHash('sha256').update(JSON.stringify(images));
  for (const layer of new Set(images.flatMap((image) => image.layers))) {
    for (const line of layerLines(layer)) hash.update(`${line}\n`);
  }
  return hash.digest('hex');
}

function* layerLines(layer: Layer): Generator<string> {
  if ('files' in layer) {
    for (const [name, source] of Object.entries(layer.files)) yield fileLine(name, statSync(source));
    return;
  }
  const names = readdirSync(layer.folder, { recursive: true, encoding: 'utf8' }).toSorted();
  for (const name of names) {
    const file = path.join(layer.folder, name);
    const stats = lstatSync(file);
    if (stats.isSymbolicLink()) yield `${name} -> ${readlinkSync(file)}`;
    else if (stats.isDirectory()) yield `${name} ${stats.mode}`;
    else yield fileLine(name, stats);
  }
}

function fileLine(name: string, { mode, size, mtimeMs }: Stats): string {
  return `${name} ${mode} ${size} ${mtimeMs}`;
}
