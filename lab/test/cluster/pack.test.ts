import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { packIfChanged } from '../../cluster/images/cluster-images.ts';
import type { Image } from '../../cluster/images/image.ts';
import { packImages } from '../../cluster/images/pack.ts';

interface Manifest {
  readonly Config: string;
  readonly RepoTags: readonly string[];
  readonly Layers: readonly string[];
}

interface Config {
  readonly config: { readonly Entrypoint: readonly string[]; readonly Cmd: readonly string[] };
  readonly rootfs: { readonly diff_ids: readonly string[] };
}

let work = '';
let archive = '';

beforeEach(() => {
  work = mkdtempSync(path.join(tmpdir(), 'pack-'));
  archive = path.join(work, 'out', 'images.tar');
});
afterEach(() => rmSync(work, { recursive: true }));

function file(name: string, text: string): string {
  const full = path.join(work, name);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

function member(name: string): Buffer {
  return execFileSync('tar', ['--extract', '--to-stdout', `--file=${archive}`, name]);
}

function names(from: string): string[] {
  return execFileSync('tar', ['--list', `--file=${from}`], { encoding: 'utf8' })
    .trimEnd()
    .split('\n');
}

function manifests(): Manifest[] {
  return JSON.parse(member('manifest.json').toString()) as Manifest[];
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Two images on one base folder; the second adds a program. */
function twoImages(): Image[] {
  file('base/etc/b', 'b');
  file('base/etc/a', 'a');
  symlinkSync('a', path.join(work, 'base/etc/link'));
  const base = { folder: path.join(work, 'base') };
  return [
    { names: ['example.org/base:1', 'example.org/base:2'], layers: [base], cmd: ['sh'] },
    {
      names: ['example.org/program:1'],
      layers: [base, { files: { '/usr/bin/program': file('program', 'text') } }],
      entrypoint: ['/usr/bin/program'],
    },
  ];
}

describe('an archive of images', () => {
  test('its manifest names each image, its configuration and its layers, by their digests', async () => {
    await packImages(archive, twoImages());
    const [base, program] = manifests();
    expect(base?.RepoTags).toEqual(['example.org/base:1', 'example.org/base:2']);
    expect(program?.RepoTags).toEqual(['example.org/program:1']);
    expect(program?.Layers[0]).toBe(base?.Layers[0]);
    for (const { Config: config, Layers: layers } of [base, program].filter((one) => one !== undefined)) {
      expect(config).toBe(`${sha256(member(config))}.json`);
      const { rootfs } = JSON.parse(member(config).toString()) as Config;
      expect(rootfs.diff_ids).toEqual(layers.map((layer) => `sha256:${sha256(member(layer))}`));
    }
  });

  test('a layer that two images share is stored once', async () => {
    await packImages(archive, twoImages());
    const files = names(archive);
    expect(files.filter((name) => name.endsWith('.tar'))).toHaveLength(2);
    expect(new Set(files).size).toBe(files.length);
  });

  test('the configuration has the entry point and the default arguments', async () => {
    await packImages(archive, twoImages());
    const configs = manifests().map((one) => (JSON.parse(member(one.Config).toString()) as Config).config);
    expect(configs).toMatchObject([
      { Entrypoint: [], Cmd: ['sh'] },
      { Entrypoint: ['/usr/bin/program'], Cmd: [] },
    ]);
  });

  test('a layer has its files in the order of their names, with symbolic links, owned by root', async () => {
    await packImages(archive, twoImages());
    const layer = path.join(work, 'layer.tar');
    writeFileSync(layer, member(manifests()[0]?.Layers[0] ?? ''));
    expect(names(layer)).toEqual(['./', './etc/', './etc/a', './etc/b', './etc/link']);
    const listed = execFileSync('tar', ['--list', '--verbose', '--numeric-owner', `--file=${layer}`], {
      encoding: 'utf8',
    });
    expect(listed).toContain('./etc/link -> a');
    expect(
      listed
        .trimEnd()
        .split('\n')
        .filter((line) => !line.includes(' 0/0 ')),
    ).toEqual([]);
  });

  test('a layer of single files has their content, not a link to it', async () => {
    await packImages(archive, twoImages());
    const layer = path.join(work, 'layer.tar');
    writeFileSync(layer, member(manifests()[1]?.Layers[1] ?? ''));
    expect(names(layer)).toEqual(['usr/bin/program']);
    expect(execFileSync('tar', ['-xOf', layer, 'usr/bin/program'], { encoding: 'utf8' })).toBe('text');
  });

  test('the same files give the same bytes, whatever their times', async () => {
    const images = twoImages();
    await packImages(archive, images);
    const first = readFileSync(archive);
    for (const name of ['base/etc/a', 'base/etc', 'program']) utimesSync(path.join(work, name), 1, 1);
    await packImages(archive, images);
    expect(readFileSync(archive).equals(first)).toBe(true);
  });

  test('a source that is missing is an error, and leaves no archive', async () => {
    const images = [{ names: ['example.org/x:1'], layers: [{ folder: path.join(work, 'none') }] }];
    await expect(packImages(archive, images)).rejects.toThrow('No such file or directory');
    expect(existsSync(archive)).toBe(false);
  });
});

describe('packing again', () => {
  test('does nothing if no source has changed', async () => {
    const images = twoImages();
    expect(await packIfChanged(archive, images)).toBe(true);
    expect(await packIfChanged(archive, images)).toBe(false);
  });

  test.each(['base/etc/a', 'program'])('packs if %s has changed', async (name) => {
    const images = twoImages();
    await packIfChanged(archive, images);
    file(name, 'other text');
    expect(await packIfChanged(archive, images)).toBe(true);
  });

  test('packs if a name has changed', async () => {
    const images = twoImages();
    await packIfChanged(archive, images);
    expect(await packIfChanged(archive, images.toReversed())).toBe(true);
  });

  test('packs if the archive is gone', async () => {
    const images = twoImages();
    await packIfChanged(archive, images);
    rmSync(archive);
    expect(await packIfChanged(archive, images)).toBe(true);
  });
});
