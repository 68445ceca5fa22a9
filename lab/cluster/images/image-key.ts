import { type Stats, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { compareText } from '../../../src/base/text/compare-text.ts';
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
  for (const name of namesIn(layer.folder)) {
    const file = path.join(layer.folder, name);
    const stats = lstatSync(file);
    if (stats.isSymbolicLink()) yield `${name} -> ${readlinkSync(file)}`;
    else if (stats.isDirectory()) yield `${name} ${stats.mode}`;
    else yield fileLine(name, stats);
  }
}

/** Names below the folder, sorted. Links are not followed: an absolute one leads out of it. */
function* namesIn(folder: string, under = ''): Generator<string> {
  const entries = readdirSync(path.join(folder, under), { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => compareText(a.name, b.name))) {
    const name = path.join(under, entry.name);
    yield name;
    if (entry.isDirectory()) yield* namesIn(folder, name);
  }
}

function fileLine(name: string, { mode, size, mtimeMs }: Stats): string {
  return `${name} ${mode} ${size} ${mtimeMs}`;
}
