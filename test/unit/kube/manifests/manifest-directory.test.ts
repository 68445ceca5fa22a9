import { mkdtemp, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { listManifests } from '../../../../src/kube/manifests/manifest-directory.ts';

const FILES = 50;

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'manifests-'));
  for (let n = 0; n < FILES; n++) await writeFile(join(directory, `${n}.yaml`), '');
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Files listed, or the code of the error. */
async function outcome(): Promise<number | string> {
  try {
    return (await listManifests(directory)).size;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

describe('listManifests', () => {
  test('a directory that is moved during the listing gives all files or an error', async () => {
    const seen = new Set<number | string>();
    for (let round = 0; round < 100; round++) {
      const listing = outcome();
      for (let wait = 0; wait < round % 20; wait++) await new Promise(setImmediate);
      await rename(directory, `${directory}.away`);
      await new Promise(setImmediate);
      await rename(`${directory}.away`, directory);
      seen.add(await listing);
    }
    // On a busy machine, every listing may have met the move.
    seen.delete('ENOENT');
    seen.add(await outcome());
    expect([...seen]).toEqual([FILES]);
  });

  test('deleted files and dangling links are not listed', async () => {
    await unlink(join(directory, '0.yaml'));
    await symlink('nowhere', join(directory, 'link.yaml'));
    expect(await outcome()).toBe(FILES - 1);
  });
});
