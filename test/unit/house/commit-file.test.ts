import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

/** The Makefile rebuilds the bundle for a new commit, because `--version` reports the commit. */
describe('the commit file of the Makefile', () => {
  let folder: string;
  let file: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'commit-file-'));
    file = join(folder, 'commit');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const make = (commit: string, ...args: readonly string[]): string =>
    execFileSync('make', [`COMMIT_FILE=${file}`, ...args], {
      encoding: 'utf8',
      env: { ...process.env, GIT_COMMIT: commit, GIT_DIR: join(folder, 'no repository'), MAKEFLAGS: '' },
    });

  test('make writes the commit to the file, and leaves the file alone while the commit is the same', () => {
    make('one', file);
    expect(readFileSync(file, 'utf8')).toBe('one\n');
    const { mtimeMs } = statSync(file);
    make('one', file);
    expect(statSync(file).mtimeMs).toBe(mtimeMs);
    make('two', file);
    expect(readFileSync(file, 'utf8')).toBe('two\n');
  });

  test('without a repository the commit is "unknown", and the file does not change', () => {
    make('', file);
    expect(readFileSync(file, 'utf8')).toBe('unknown\n');
    const { mtimeMs } = statSync(file);
    make('', file);
    expect(statSync(file).mtimeMs).toBe(mtimeMs);
  });

  test('another commit rebuilds the bundle', () => {
    make('one', file);
    utimesSync(file, 0, 0);
    expect(make('two', '--dry-run', 'build/kube-ipvs-proxy.mjs')).toContain('node scripts/bundle.ts');
  });
});
