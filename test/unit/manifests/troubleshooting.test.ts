import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';

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

/** The rows of the tables in a part of the page, as cells; without the lines above the rows. */
function rowsOf(text: string): string[][] {
  const rows = Array.from(text.matchAll(/^\| (.*) \|$/gm), ([, row = '']) => row.split(/ ?(?<!\\)\| /));
  return rows.slice(1);
}

/** Of Kubernetes: the kubelet's and the container runtime's. */
const OF_KUBERNETES = ['OOMKilled', 'Liveness probe failed', 'MountVolume.SetUp failed'];

describe.each([
  ['A NodePort answers on some nodes only', ['NodePort', 'one node only']],
  ['DNS times out on one node', ['DNS', 'times out', 'i/o timeout']],
  ['The source IP is lost', ['source IP', 'upgrade']],
  ['Connections are reset during deploys', ['reset by peer', 'deploys', '502']],
  ['Health checks of a load balancer fail', ['load balancer', 'health checks', 'unhealthy']],
  ['CrashLoopBackOff on one node', ['CrashLoopBackOff', 'OOMKilled']],
])('the incident "%s"', (heading, words) => {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const [, incidents = ''] = /^## Common incidents$(.*?)^## /ms.exec(page) ?? [];
  const [index = '', ...sections] = incidents.split(/^### /m);
  const [, section = ''] = sections.map((each) => each.split(/\n(.*)/s)).find(([title]) => title === heading) ?? [];
  const rows = rowsOf(section);

  test('is found by the words that people use, which lead to its section', () => {
    const anchor = `(#${heading.toLowerCase().replaceAll(' ', '-')})`;
    const reports = rowsOf(index).filter(([, see = '']) => see.includes(anchor));
    expect(reports).toHaveLength(1);
    expect(words.filter((word) => reports[0]?.[0]?.includes(word) !== true)).toEqual([]);
  });

  test('ends after at most three steps, and each line that is printed leads on', () => {
    const steps = rows.flatMap(([step = '']) => /^(\d)\. `/.exec(step)?.[1] ?? (step === '' ? [] : step));
    expect(steps.length).toBeGreaterThan(1);
    expect(steps).toEqual(['1', '2', '3'].slice(0, steps.length));
    expect(rows.filter((row) => row.length !== 3 || row[2] === '')).toEqual([]);
  });

  test('quotes lines that the program prints', () => {
    const quoted = rows.flatMap(([, printed = '']) =>
      Array.from(printed.matchAll(/`([^`]+)`/g), ([, line = '']) => line),
    );
    const said = quoted.filter((line) => !OF_KUBERNETES.includes(line));
    expect(said.length).toBeGreaterThan(1);
    expect(said.filter((line) => !SOURCE.includes(line))).toEqual([]);
  });
});
