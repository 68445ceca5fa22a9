import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

interface Case {
  readonly name: string;
  readonly here: string;
  readonly proof: string;
}

/** The items `- **name**` of the page, each with its `here` and `proven by` in one line. */
const CASES: readonly Case[] = readFileSync('test/hard-cases.md', 'utf8')
  .split(/\n(?=- \*\*|## )/)
  .filter((part) => part.startsWith('- **') && part.includes('\n  - here: '))
  .map((part) => {
    const line = part.replaceAll(/\s+/g, ' ');
    const match = /^- \*\*(.+?)\*\*.* - here: (.+) - proven by: ?(.+)$/.exec(line);
    if (match === null) throw new Error(`not a name, "here" and "proven by": ${line}`);
    const [, name = '', here = '', proof = ''] = match;
    return { name, here, proof: proof.trim() };
  });

/** A path and the titles after it: `path`: "one", "two" */
const PROOFS = /`(test\/[^`]+)`((?:(?::|,) "[^"]+")*)/g;

describe('test/hard-cases.md', () => {
  test('test/hard-cases.md has more than 35 cases', () => {
    expect(CASES.length).toBeGreaterThan(35);
  });

  const proven = CASES.filter(({ proof }) => proof !== 'none');

  test('test/hard-cases.md says "not done" in the cases without a test, and in no other', () => {
    const notDone = CASES.filter(({ here }) => here.startsWith('not done'));
    expect(CASES.filter((each) => !proven.includes(each))).toEqual(notDone);
  });

  test.each(proven.map((each) => [each.name, each] as const))('the tests of "%s" exist', (_name, { proof }) => {
    const proofs = [...proof.matchAll(PROOFS)];
    expect(proofs).not.toEqual([]);
    for (const [, file = '', titles = ''] of proofs) {
      expect({ file, there: existsSync(file) }).toEqual({ file, there: true });
      const text = readFileSync(file, 'utf8');
      for (const [, title = ''] of titles.matchAll(/"([^"]+)"/g)) expect(text).toContain(title);
    }
  });
});
