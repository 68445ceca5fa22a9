import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';

/**
 * What src should have less of. Each table says how much there is: it may only shrink. Who removes something takes it out of
 * the table, too.
 */

/** Branches on the mode outside of the planes: callers ask for a fact (src/base/proxy-mode.ts). */
const MODE_BRANCHES: Readonly<Record<string, number>> = {};

/** Folders with more than 20 files of their own. */
const LARGE_FOLDERS: Readonly<Record<string, number>> = {};
const MOST_FILES = 20;

/** Names that files in different folders have, but for folders of one kind: the planes, and the families of netlink. */
const NAMES_USED_TWICE: readonly string[] = [];

/** Files that import each other, whether values or types. */
const FILE_CIRCLES: readonly string[] = [];

/** Folders whose files import each other's. */
const FOLDER_CIRCLES: readonly string[] = [];

const IMPORT = /^\s*(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/gm;

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
const texts = new Map(sources.map((file) => [file, readFileSync(path.join('src', file), 'utf8')]));

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

const fileImports: Graph = new Map(
  Array.from(texts, ([file, text]) => [
    file,
    new Set(
      Array.from(text.matchAll(IMPORT), ([, from, dynamic]) => path.join(path.dirname(file), from ?? dynamic ?? '')),
    ),
  ]),
);
const folderImports: Graph = new Map(
  Array.from(
    Map.groupBy(fileImports, ([file]) => path.dirname(file)),
    ([folder, files]) => [
      folder,
      new Set(files.flatMap(([, imported]) => Array.from(imported, (file) => path.dirname(file)))),
    ],
  ),
);

/** The largest groups of nodes from each of which all others can be reached: each as its sorted names. */
function circlesOf(graph: Graph): string[] {
  const reach = new Map(Array.from(graph.keys(), (node) => [node, reachable(graph, node)]));
  const group = (node: string): string[] =>
    Array.from(reach.get(node) ?? []).filter((other) => other === node || reach.get(other)?.has(node) === true);
  const groups = Array.from(graph.keys(), group).filter((members) => members.length > 1);
  return [...new Set(groups.map((members) => members.toSorted().join(' ')))];
}

/** A circle that has become smaller is none. */
function newCircles(found: readonly string[], known: readonly string[]): string[] {
  const groups = known.map((circle) => new Set(circle.split(' ')));
  return found.filter((circle) => !groups.some((group) => circle.split(' ').every((member) => group.has(member))));
}

function reachable(graph: Graph, start: string): Set<string> {
  const found = new Set<string>();
  for (const waiting = [...(graph.get(start) ?? [])]; waiting.length > 0;) {
    const node = waiting.pop() ?? '';
    if (found.has(node)) continue;
    found.add(node);
    waiting.push(...(graph.get(node) ?? []));
  }
  return found;
}

function above(found: Readonly<Record<string, number>>, allowed: Readonly<Record<string, number>>): string[] {
  return Object.entries(found).flatMap(([name, count]) => (count > (allowed[name] ?? 0) ? [`${name}: ${count}`] : []));
}

/** Comparisons with a mode, and tables with a row for each mode. */
const BRANCH = /[mM]ode\s*[!=]==\s*'[a-z]|case '(?:ipvs|nftables|iptables)'|Record<ProxyMode/g;
const COMMENT = /\/\*[^]*?\*\/|\/\/.*/g;
/** The planes, the composition, and what has a row for each mode because it is about modes. */
const OF_MODES =
  /^(?:kernel|daemon\/modes)\/|^(?:base\/proxy-mode|explain\/words|explain\/packet\/packet-planes|plan\/mode-plans)\.ts$/;

describe('src has no more of', () => {
  test('branches on the mode', () => {
    const branches = Array.from(
      texts,
      ([file, text]) => [file, [...text.replaceAll(COMMENT, '').matchAll(BRANCH)].length] as const,
    );
    const found = Object.fromEntries(branches.filter(([file, count]) => count > 0 && !OF_MODES.test(file)));
    expect(found).toEqual(MODE_BRANCHES);
  });

  test('files in large folders', () => {
    const folders = Array.from(
      Map.groupBy(sources, (file) => path.dirname(file)),
      ([folder, files]) => [folder, files.length] as const,
    );
    const large = Object.fromEntries(folders.filter(([, count]) => count > MOST_FILES));
    expect(above(large, LARGE_FOLDERS)).toEqual([]);
  });

  test('names of files that mean two things', () => {
    const parent = (file: string): string => path.dirname(path.dirname(file));
    const twice = Array.from(Map.groupBy(sources, (file) => path.basename(file))).filter(
      ([, files]) => files.length > 1 && new Set(files.map(parent)).size > 1,
    );
    expect(twice.map(([name]) => name).filter((name) => !NAMES_USED_TWICE.includes(name))).toEqual([]);
  });

  test('files that import each other', () => {
    expect(newCircles(circlesOf(fileImports), FILE_CIRCLES)).toEqual([]);
  });

  test('folders that import each other', () => {
    expect(newCircles(circlesOf(folderImports), FOLDER_CIRCLES)).toEqual([]);
  });
});
