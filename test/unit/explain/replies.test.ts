import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const PAGE = readFileSync('docs/explain.md', 'utf8');
const KINDS = Array.from(
  readFileSync('src/explain/replies.ts', 'utf8').matchAll(/extends Reply<'(\w+)'> \{\n(.*?)\n\}\n/gs),
  ([, kind = '', body = '']) =>
    [kind, Array.from(body.matchAll(/^ {2}readonly (\w+)/gm), ([, name = '']) => name)] as const,
);

test('all kinds of replies are found', () => expect(KINDS.length).toBeGreaterThan(8));

test.each(KINDS)('docs/explain.md has every field of a reply of kind %s', (kind, fields) => {
  const row = PAGE.split('\n').find((line) => line.startsWith(`| \`${kind}\` |`)) ?? '';
  expect(fields.filter((field) => !row.includes(`\`${field}\``))).toEqual([]);
});
