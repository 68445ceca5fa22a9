import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

/** What the kernel, Node.js or iptables say, not we. */
const OF_OTHERS = ['unable to initialize table', "Can't open socket to ipset", 'address already in use', 'EROFS'];

const SOURCE = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(path.join('src', name), 'utf8'))
  // Sentences that are written over several lines, and escaped quotes.
  .map((text) => text.replace(/['`"] \+\s+['`"]/g, '').replaceAll("\\'", "'"))
  .join('\n');

/** The sentences of ours that the page explains, cut where it leaves something out. */
function sentences(): string[] {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const tables = page.slice(page.indexOf('## It does not start'), page.indexOf('## A Service does not answer'));
  const quoted = Array.from(tables.matchAll(/^\| (.*?) \|/gm), ([, cell = '']) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, text = '']) => text),
  ).flat();
  return quoted
    .flatMap((text) => text.split(/\s*"?\.\.\."?[:,]?\s*|; (?=free)|(?=\(401)|(?=\(403)/))
    .filter((text) => text !== '');
}

test('every message in docs/troubleshooting.md exists in the program', () => {
  const said = sentences().filter((text) => !OF_OTHERS.some((other) => text.includes(other)));
  expect(said.length).toBeGreaterThan(20);
  expect(said.filter((text) => !SOURCE.includes(text))).toEqual([]);
});
