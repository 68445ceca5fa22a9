import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

/** What the kernel, Node.js, iptables or the parser of arguments say, not we. */
const OF_OTHERS = [
  'unable to initialize table',
  "Can't open socket to ipset",
  'address already in use',
  'EROFS',
  'unknown option',
  '(Did you mean',
];

const SOURCE = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(path.join('src', name), 'utf8'))
  // Sentences that are written over several lines, and escaped quotes.
  .map((text) => text.replace(/['`"] \+\s+['`"]/g, '').replaceAll("\\'", "'"))
  .join('\n');

/** The sentences of ours that the page explains, cut where it leaves something out. */
function sentences(): string[] {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const tables = page.slice(page.indexOf('## What `status` prints'), page.indexOf('## A Service does not answer'));
  const quoted = Array.from(tables.matchAll(/^\| (.*?) \|/gm), ([, cell = '']) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, text = '']) => text),
  ).flat();
  return quoted
    .flatMap((text) => text.split(/\s*"?\.\.\."?[:,]?\s*|; (?=free)|(?=\(401)|(?=\(403)/))
    .filter((text) => text !== '');
}

test('every message in docs/troubleshooting.md exists in the program', () => {
  const said = sentences().filter((text) => !OF_OTHERS.some((other) => text.includes(other)));
  expect(said.length).toBeGreaterThan(60);
  expect(said.filter((text) => !SOURCE.includes(text))).toEqual([]);
});

test('the page begins with the commands that ask the program, and each section names what they print', () => {
  const [start = '', ...sections] = readFileSync('docs/troubleshooting.md', 'utf8').split(/^## /m);
  for (const command of ['status', 'explain web', 'diff']) expect(start).toContain(`kube-ipvs-proxy ${command}`);
  for (const section of sections) {
    const [heading = '', ...lines] = section.split('\n');
    const [first = ''] = lines.join('\n').trim().split('\n\n');
    expect([heading, /`(status|explain|diff)\b/.test(`${heading} ${first}`)]).toEqual([heading, true]);
  }
});

test('the lines of the commands in the table of symptoms exist in the program', () => {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const printed = Array.from(page.matchAll(/`(?:status|explain [A-Z:0-9]+)`: ((?:its lines )?`[^`]+`(?:, `[^`]+`)*)/g));
  const lines = printed.flatMap(([, list = '']) => Array.from(list.matchAll(/`([^`]+)`/g), ([, line = '']) => line));
  expect(lines.length).toBeGreaterThan(6);
  expect(lines.filter((line) => !SOURCE.includes(line))).toEqual([]);
});
