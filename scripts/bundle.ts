// Bundles the daemon into one file, so that a node loads only code that is used. FILE.mjs is the launcher
// (src/launcher.ts), FILE.js the program, FILE-engine.cjs the worker thread of the user-space engine. Builds are reproducible from the same commit and sources.
import { execFileSync } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { SourceMap, type SourceMapPayload, builtinModules } from 'node:module';
import path from 'node:path';
import { build, type Plugin } from 'esbuild';

const [launcher] = process.argv.slice(2);
if (launcher?.endsWith('.mjs') !== true) throw new Error('usage: node scripts/bundle.ts FILE.mjs');
const stem = launcher.slice(0, -'.mjs'.length);

/** Returns code that exports the names of another module, which it loads when one of them is first read. */
function whenUsed(load: string, exported: object): string {
  return `let loaded;
    const load = () => (loaded ??= ${load});
    for (const name of ${JSON.stringify(Object.keys(exported))}) {
      Object.defineProperty(exports, name, { configurable: true, enumerable: true, get: () => load()[name] });
    }`;
}

/**
 * A static import of a built-in module reads all its properties, including lazy ones. For node:http this loads fetch
 * and WebSocket (14 MiB); for node:util it loads workers and an argument parser.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy-builtins',
  setup(bundle) {
    const filter = new RegExp(`^(node:)?(${builtinModules.join('|')})$`);
    bundle.onResolve({ filter }, ({ path, kind }) =>
      kind === 'require-call' ? null : { path: path.replace(/^node:/, ''), namespace: 'builtin' },
    );
    bundle.onLoad({ filter: /^/, namespace: 'builtin' }, ({ path }) => {
      const load = `process.getBuiltinModule('node:${path}')`;
      const module: unknown = process.getBuiltinModule(`node:${path}`);
      if (typeof module !== 'object' || module === null) return { contents: `module.exports = ${load};` };
      const contents = whenUsed(load, module);
      if (path !== 'child_process') return { contents };
      // client-node imports `spawn` for exec plugins: load child_process only when it is called.
      const spawn = 'value: (...args) => load().spawn(...args)';
      return { contents: `${contents}\nObject.defineProperty(exports, 'spawn', { enumerable: true, ${spawn} });` };
    });
  },
};

/** Imports that client-node's configuration needs only for its typed client, which we never create (11 MiB). */
const UNUSED: readonly (readonly [module: RegExp, names: readonly string[]])[] = [
  [/^undici$/, ['Agent', 'ProxyAgent']],
  [/^hpagent$/, ['HttpProxyAgent', 'HttpsProxyAgent']],
  [/^\.\/gen\/index\.js$/, ['ServerConfiguration', 'createConfiguration']],
];

const noTypedClient: Plugin = {
  name: 'no-typed-client',
  setup(bundle) {
    for (const [filter, names] of UNUSED) {
      bundle.onResolve({ filter }, ({ path, importer }) =>
        importer.endsWith('/@kubernetes/client-node/dist/config.js')
          ? { path, namespace: 'unused', pluginData: names }
          : null,
      );
    }
    bundle.onLoad({ filter: /^/, namespace: 'unused' }, ({ path, pluginData }) => ({
      contents: (pluginData as readonly string[])
        .map((name) => `export function ${name}() { throw new Error('${name} of ${path} is not in this bundle'); }`)
        .join('\n'),
    }));
  },
};

/** Packages that client-node needs only for rare credentials and proxies: load them on first use. */
const RARE = /^(jsonpath-plus|socks|socks-proxy-agent)$/;

const rarePackages: Plugin = {
  name: 'rare-packages',
  setup(bundle) {
    bundle.onResolve({ filter: RARE }, ({ path, kind, importer, resolveDir }) =>
      kind === 'import-statement' && importer.includes('/@kubernetes/client-node/')
        ? { path, namespace: 'rare', pluginData: resolveDir }
        : null,
    );
    bundle.onLoad({ filter: /^/, namespace: 'rare' }, async ({ path, pluginData }) => ({
      contents: whenUsed(`require('${path}')`, (await import(path)) as object),
      resolveDir: pluginData as string,
    }));
  },
};

/** Drops winston's color package: our log lines have no colors. */
const noColors: Plugin = {
  name: 'no-colors',
  setup(bundle) {
    bundle.onResolve({ filter: /^@colors\/colors\/safe$/ }, ({ path }) => ({ path, namespace: 'empty' }));
    bundle.onLoad({ filter: /^/, namespace: 'empty' }, () => ({ contents: 'module.exports = {};' }));
  },
};

/** The start of the function that src/observe/log/caller.ts calls. */
const CALLERS = 'function __callers() { return ';

/**
 * Adds a table to the bundle that maps the position of each log call to its file and line in src/. Log lines thus name
 * their caller without a source map, which would take a megabyte of memory.
 */
async function addCallers(file: string): Promise<void> {
  const text = await readFile(file, 'latin1');
  const map = new SourceMap(JSON.parse(await readFile(`${file}.map`, 'utf8')) as SourceMapPayload);
  const callers: Record<string, string> = {};
  for (const [at, line] of text.split('\n').entries()) {
    for (const { index } of line.matchAll(/(?<=\.|^)(?:error|warn|info|debug)\(/g)) {
      const found = map.findEntry(at, index);
      if (!('originalSource' in found)) continue;
      const source = /\/src\/(?:.*\/)?([^/]+\/[^/]+\.ts)$/.exec(found.originalSource)?.[1];
      if (source !== undefined) callers[`${at + 1}:${index + 1}`] = `${source}:${found.originalLine + 1}`;
    }
  }
  await writeFile(
    file,
    text.replace(`${CALLERS}{}`, () => `${CALLERS}${JSON.stringify(callers)}`),
    'latin1',
  );
}

/** Runs git. Returns undefined without git or outside of a repository. */
function git(...args: readonly string[]): string | undefined {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

/** Returns the commit and time of the build: GIT_COMMIT and SOURCE_DATE_EPOCH (seconds), or those of HEAD. */
function buildInfo(): Readonly<Record<'commit' | 'treeState' | 'date', string>> {
  const { GIT_COMMIT, SOURCE_DATE_EPOCH } = process.env;
  const commit = GIT_COMMIT || git('rev-parse', 'HEAD');
  const changes = GIT_COMMIT ? '' : git('status', '--porcelain');
  const time = SOURCE_DATE_EPOCH || (commit && git('log', '-1', '--format=%ct'));
  return {
    commit: commit ?? 'unknown',
    treeState: commit === undefined || changes === undefined ? 'unknown' : changes === '' ? 'clean' : 'dirty',
    date: time ? new Date(Number(time) * 1000).toISOString().replace('.000', '') : 'unknown',
  };
}

await build({
  entryPoints: ['src/main.ts'],
  outfile: `${stem}.js`,
  bundle: true,
  platform: 'node',
  // One function expression, which src/launcher.ts calls with these arguments.
  format: 'cjs',
  banner: { js: '(function (require, __url) {' },
  // addCallers() replaces the {}. A function declaration is hoisted, so all of the program can call it.
  footer: { js: `${CALLERS}{}; }\n})` },
  target: 'node22',
  plugins: [lazyBuiltins, rarePackages, noTypedClient, noColors],
  // Selects the production code of packages.
  define: {
    'process.env.NODE_ENV': '"production"',
    'import.meta.url': '__url',
    __build: JSON.stringify(buildInfo()),
    __engineWorker: JSON.stringify(`./${path.basename(stem)}-engine.cjs`),
  },
  // Minify, because the text stays in memory. Keep names and short lines for stack traces.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
});
await addCallers(`${stem}.js`);
await build({
  entryPoints: ['src/userspace/engine-worker.ts'],
  outfile: `${stem}-engine.cjs`,
  bundle: true,
  define: { 'import.meta.url': '__url' },
  banner: { js: "const __url = require('node:url').pathToFileURL(__filename).href;" },
  platform: 'node',
  format: 'cjs',
  target: 'node22',
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
});
await build({
  entryPoints: ['src/launcher.ts'],
  outfile: launcher,
  platform: 'node',
  format: 'esm',
  // An old Node.js must be able to run the version check.
  target: 'node12.20',
  banner: {
    // Few objects are short-lived, so limit the semi-spaces, which could grow to 2 x 16 MiB. 512 MiB is three times the
    // heap of 50,000 Services with 10 endpoints each; with a larger limit V8 collects later and uses more memory
    // (lab/notes/memory.md).
    js: '#!/usr/bin/env -S node --max-semi-space-size=2 --max-old-space-size=512 --use-openssl-ca',
  },
  logLevel: 'warning',
});
await chmod(launcher, 0o755);
