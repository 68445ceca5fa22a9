// Bundles the daemon into one file: what a node runs holds only the code that is used (memory matters on every node). FILE.mjs is what is
// started (src/launcher.ts), FILE.js the program. A FILE.cache of an earlier program is removed: scripts/compile.ts makes the new one.
import { chmod, rm } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { build, type Plugin } from 'esbuild';

const [launcher] = process.argv.slice(2);
if (launcher?.endsWith('.mjs') !== true) throw new Error('usage: node scripts/bundle.ts FILE.mjs');
const stem = launcher.slice(0, -'.mjs'.length);

/** A module whose exports are taken from another one, which is loaded when the first of them is used. */
function whenUsed(load: string, exported: object): string {
  return `let loaded;
    const load = () => (loaded ??= ${load});
    for (const name of ${JSON.stringify(Object.keys(exported))}) {
      Object.defineProperty(exports, name, { configurable: true, enumerable: true, get: () => load()[name] });
    }`;
}

/**
 * A static import of a built-in module reads each of its properties, the lazy ones too: for node:http that loads the whole of fetch and
 * WebSocket, 14 MiB; for node:util workers and a parser of arguments.
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
      // client-node takes hold of it for programs that a kubeconfig may name.
      const spawn = 'value: (...args) => load().spawn(...args)';
      return { contents: `${contents}\nObject.defineProperty(exports, 'spawn', { enumerable: true, ${spawn} });` };
    });
  },
};

/** What @kubernetes/client-node's configuration imports for its typed client, which is never made here: 11 MiB. */
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

/** What client-node imports for some credentials and proxies, which few starts have. */
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

/** winston's colours, of which our lines have none. */
const noColors: Plugin = {
  name: 'no-colors',
  setup(bundle) {
    bundle.onResolve({ filter: /^@colors\/colors\/safe$/ }, ({ path }) => ({ path, namespace: 'empty' }));
    bundle.onLoad({ filter: /^/, namespace: 'empty' }, () => ({ contents: 'module.exports = {};' }));
  },
};

await rm(`${stem}.cache`, { force: true });
await build({
  entryPoints: ['src/main.ts'],
  outfile: `${stem}.js`,
  bundle: true,
  platform: 'node',
  // A script, for V8 keeps what it compiled of one (src/launcher.ts): one function expression, called with what it has of its own.
  format: 'cjs',
  banner: { js: '(function (require, __url) {' },
  footer: { js: '})' },
  target: 'node22',
  plugins: [lazyBuiltins, rarePackages, noTypedClient, noColors],
  // Some packages bring other code for development along.
  define: { 'process.env.NODE_ENV': '"production"', 'import.meta.url': '__url' },
  // The text stays in memory. Names are kept for stack traces, and lines short enough to be shown in one.
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
  target: 'node22',
  banner: {
    // Short-lived objects are few here: the two halves of their space need not grow to 16 MiB each. Half a gigabyte is three times what
    // 50,000 Services of 10 endpoints keep; a heap that may have more is collected later, and larger than it need be (docs/memory.md).
    js: '#!/usr/bin/env -S node --max-semi-space-size=2 --max-old-space-size=512 --use-openssl-ca',
  },
  logLevel: 'warning',
});
await chmod(launcher, 0o755);
