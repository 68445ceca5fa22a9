import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { contentHash, watchConfigFile } from '../../../src/config/config-file-watch.ts';

let folder: string;
let path: string;
let close: (() => void) | undefined;
let changes: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'config-watch-'));
  path = join(folder, 'config.yaml');
  changes = 0;
});

afterEach(() => {
  close?.();
  rmSync(folder, { recursive: true });
});

function begin(sha256 = contentHash(readFileSync(path))): void {
  close = watchConfigFile({ path, sha256, onChange: () => changes++, intervalMs: 20 });
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

/** How often a change was told, a while after the first time. */
async function changesSoon(): Promise<number> {
  for (let i = 0; i < 200 && changes === 0; i++) await pause(10);
  await pause(50);
  return changes;
}

describe('new content is told once', () => {
  test('a write', async () => {
    writeFileSync(path, 'a');
    begin();
    writeFileSync(path, 'b');
    expect(await changesSoon()).toBe(1);
    writeFileSync(path, 'c');
    await pause(60);
    expect(changes).toBe(1);
  });

  test('a rename over it', async () => {
    writeFileSync(path, 'a');
    begin();
    writeFileSync(join(folder, 'other'), 'b');
    renameSync(join(folder, 'other'), path);
    expect(await changesSoon()).toBe(1);
  });

  test('the symlink swap of a ConfigMap volume', async () => {
    for (const [name, text] of [
      ['v1', 'a'],
      ['v2', 'b'],
    ] as const) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'config.yaml'), text);
    }
    symlinkSync('v1', join(folder, '..data'));
    symlinkSync(join('..data', 'config.yaml'), path);
    begin();
    symlinkSync('v2', join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    expect(await changesSoon()).toBe(1);
  });

  test('a change before the watch began', async () => {
    writeFileSync(path, 'b');
    begin(contentHash(Buffer.from('a')));
    expect(await changesSoon()).toBe(1);
  });
});

describe('nothing is told', () => {
  test('while the content still changes', async () => {
    // Each read of this file finds other content.
    path = '/proc/sys/kernel/random/uuid';
    begin();
    await pause(100);
    expect(changes).toBe(0);
  });

  test('when the same is written again', async () => {
    writeFileSync(path, 'a');
    begin();
    writeFileSync(path, 'a');
    await pause(100);
    expect(changes).toBe(0);
  });

  test('when the file is away', async () => {
    writeFileSync(path, 'a');
    begin();
    rmSync(path);
    await pause(100);
    expect(changes).toBe(0);
  });

  test('after close', async () => {
    writeFileSync(path, 'a');
    begin();
    writeFileSync(path, 'b');
    close?.();
    await pause(100);
    expect(changes).toBe(0);
  });
});
