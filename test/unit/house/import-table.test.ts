import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';

/**
 * Data flows one way through the house (docs/architecture.md). For each folder of src: what it may import beside itself, `base`
 * and npm packages. `types` may be imported with `import type` only.
 */
const TABLE: Record<string, { readonly values: readonly string[]; readonly types?: readonly string[] }> = {
  base: { values: [] },
  config: { values: [] },
  observe: { values: ['config', 'userspace'], types: ['state'] },
  kube: { values: ['observe'] },
  model: { values: [], types: ['kube'] },
  state: { values: [] },
  plan: { values: ['model', 'state'], types: ['config'] },
  diff: { values: ['state'] },
  'endpoint-check': { values: ['state'] },
  explain: { values: ['model', 'plan', 'state', 'diff'] },
  netlink: { values: [] },
  kernel: { values: ['state', 'netlink'], types: ['observe', 'userspace'] },
  userspace: { values: ['state', 'netlink'] },
  fleet: { values: ['explain', 'kernel', 'state'] },
  reconcile: { values: ['model', 'plan', 'state', 'diff', 'explain'], types: ['kernel', 'observe'] },
  daemon: {
    values: [
      'config',
      'observe',
      'kube',
      'model',
      'plan',
      'state',
      'diff',
      'endpoint-check',
      'explain',
      'netlink',
      'kernel',
      'userspace',
      'reconcile',
    ],
  },
  command: {
    values: ['cli', 'config', 'daemon', 'explain', 'fleet', 'kernel', 'kube', 'model', 'reconcile', 'state'],
    types: ['observe'],
  },
  cli: { values: ['config', 'daemon'], types: ['observe'] },
  'launcher.ts': { values: [] },
  'main.ts': { values: ['cli', 'command', 'config', 'daemon', 'observe'] },
};

/** What a folder in a folder may import of that: the files beside it ('') and the folders named. */
const INNER: Record<string, readonly string[]> = {
  'kube/objects': [],
  'kube/kubeconfig': ['objects'],
  'kube/json': [],
  'kube/protobuf': ['objects'],
  'kube/api': ['objects', 'json', 'kubeconfig', 'protobuf'],
  'kube/manifests': ['objects'],
  'kernel/iptables': ['', 'linux'],
  'kernel/iptables-mode': ['', 'iptables', 'linux'],
  'kernel/ipvs': ['', 'iptables', 'linux'],
  'kernel/linux': [''],
  'kernel/leftovers': ['', 'iptables', 'nftables'],
  'kernel/nftables': ['', 'iptables', 'linux'],
  'kernel/userspace': ['', 'linux', 'nftables'],
  'daemon/startup': [],
  'daemon/traffic': [],
  'daemon/endpoint-check': ['startup'],
  'daemon/questions': ['startup'],
  'daemon/modes': ['startup'],
  'daemon/run': ['endpoint-check', 'modes', 'questions', 'startup', 'traffic'],
  'daemon/shadow': ['modes', 'questions', 'startup', 'run'],
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
  test('the import table names every folder of src, and only those', () => {
    expect(Object.keys(TABLE).toSorted()).toEqual([...new Set(sourceFiles().map(room))].toSorted());
  });

  test.each(sourceFiles())('%s imports only folders that the import table allows', (file) => {
    const rule = TABLE[room(file)];
    const wrong = importsOf(file).filter(
      (found) =>
        found.room !== room(file) &&
        found.room !== 'base' &&
        !rule?.values.includes(found.room) &&
        !(found.typeOnly && rule?.types?.includes(found.room)),
    );
    expect(wrong.map(({ target }) => target)).toEqual([]);
  });

  test.each(Object.entries(INNER))('%s imports only sibling folders that it may', (folder, allowed) => {
    const [outer = '', own = ''] = folder.split('/');
    const files = sourceFiles().filter((file) => file.startsWith(`${folder}/`));
    expect(files.length).toBeGreaterThan(0);
    const inner = files
      .flatMap(importsOf)
      .filter((found) => found.room === outer)
      .map(({ target }) => path.dirname(target).split(path.sep)[1] ?? '');
    expect([...new Set(inner)].filter((one) => one !== own && !allowed.includes(one))).toEqual([]);
  });

  test.each(
    sourceFiles().filter((file) => /^(model|plan|state|diff|endpoint-check|explain|fleet\/facts)\//.test(file)),
  )('%s is pure', (file) => {
    const text = readFileSync(path.join(ROOT, file), 'utf8');
    expect(text).not.toMatch(
      /\bprocess\.|\bDate\.now\(|new Date\(\)|Math\.random\(|\basync\b|\bPromise\b|\bsetTimeout\b/,
    );
  });
});
