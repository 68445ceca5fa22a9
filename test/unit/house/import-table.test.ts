import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';

/**
 * Data flows one way through the house (docs/architecture.md). For each folder of src: what it may import beside itself and
 * npm packages. `types` may be imported with `import type` only.
 */
const TABLE: Record<string, { readonly values: readonly string[]; readonly types?: readonly string[] }> = {
  net: { values: [] },
  config: { values: ['net'] },
  observe: { values: ['net', 'config'] },
  kube: { values: ['net', 'observe'] },
  model: { values: ['net'], types: ['kube'] },
  state: { values: ['net'] },
  plan: { values: ['net', 'model', 'state'], types: ['config'] },
  diff: { values: ['net', 'state'] },
  netlink: { values: ['net'] },
  kernel: { values: ['net', 'state', 'netlink'], types: ['observe'] },
  reconcile: { values: ['net', 'model', 'plan', 'state', 'diff'], types: ['kernel', 'observe'] },
  daemon: {
    values: ['net', 'config', 'observe', 'kube', 'model', 'plan', 'state', 'diff', 'netlink', 'kernel', 'reconcile'],
  },
  cli: { values: ['config', 'daemon'], types: ['observe'] },
  'launcher.ts': { values: [] },
  'main.ts': { values: ['cli', 'config', 'daemon', 'observe'] },
};

const ROOT = path.resolve('src');
const IMPORT = /^\s*(?:import|export)\s+(type\s)?[^'"]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/gm;

function sourceFiles(): string[] {
  return readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
}

function room(file: string): string {
  return file.split(path.sep)[0] ?? file;
}

function importsOf(file: string): { readonly room: string; readonly typeOnly: boolean; readonly target: string }[] {
  const text = readFileSync(path.join(ROOT, file), 'utf8');
  return Array.from(text.matchAll(IMPORT), ([, type, from, dynamic]) => {
    const target = path.relative(ROOT, path.resolve(ROOT, path.dirname(file), from ?? dynamic ?? ''));
    return { room: room(target), typeOnly: type !== undefined, target };
  });
}

describe('the import table', () => {
  test('names every folder of src, and only those', () => {
    expect(Object.keys(TABLE).toSorted()).toEqual([...new Set(sourceFiles().map(room))].toSorted());
  });

  test.each(sourceFiles())('%s imports only what its folder may', (file) => {
    const rule = TABLE[room(file)];
    const wrong = importsOf(file).filter(
      (found) =>
        found.room !== room(file) &&
        !rule?.values.includes(found.room) &&
        !(found.typeOnly && rule?.types?.includes(found.room)),
    );
    expect(wrong.map(({ target }) => target)).toEqual([]);
  });

  test.each(sourceFiles().filter((file) => /^(model|plan|state|diff)\//.test(file)))('%s is pure', (file) => {
    const text = readFileSync(path.join(ROOT, file), 'utf8');
    expect(text).not.toMatch(
      /\bprocess\.|\bDate\.now\(|new Date\(\)|Math\.random\(|\basync\b|\bPromise\b|\bsetTimeout\b/,
    );
  });
});
