import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

interface Row {
  readonly name: string;
  readonly here: string;
  readonly proof: string;
}

const ROWS: readonly Row[] = readFileSync('docs/hard-cases.md', 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (case|---) /.test(line))
  .map((line) => {
    const cells = line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, ''));
    if (cells.length !== 4) throw new Error(`not four cells: ${line}`);
    const [name = '', , here = '', proof = ''] = cells;
    return { name, here, proof };
  });

/** `path` with the titles behind it: `path`: "one", "two" */
const PROOFS = /`(test\/[^`]+)`((?:(?::|,) "[^"]+")*)/g;

/** A page that claims a test which is not there (any more) claims too much. */
describe('docs/hard-cases.md', () => {
  test('docs/hard-cases.md has more than 35 rows', () => {
    expect(ROWS.length).toBeGreaterThan(35);
  });

  const proven = ROWS.filter(({ proof }) => proof !== 'none');

  test('says "not done" where it names no test, and only there', () => {
    const notDone = ROWS.filter(({ here }) => here.startsWith('not done'));
    expect(ROWS.filter((row) => !proven.includes(row))).toEqual(notDone);
  });

  test.each(proven.map((row) => [row.name, row] as const))('%s', (_name, { proof }) => {
    const proofs = [...proof.matchAll(PROOFS)];
    expect(proofs).not.toEqual([]);
    for (const [, file = '', titles = ''] of proofs) {
      expect({ file, there: existsSync(file) }).toEqual({ file, there: true });
      const text = readFileSync(file, 'utf8');
      for (const [, title = ''] of titles.matchAll(/"([^"]+)"/g)) expect(text).toContain(title);
    }
  });
});
