// Bundles the daemon into one file: what a node runs holds only the code that is used (memory matters on every node).
import { chmod } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { build, type Plugin } from 'esbuild';

const [outfile] = process.argv.slice(2);
if (outfile === undefined) throw new Error('usage: node scripts/bundle.ts FILE');

/**
 * A static import of a built-in module reads each of its properties, the lazy ones too: for node:http that loads the whole of fetch and
 * WebSocket, 14 MiB. Taken as an object, a property is loaded when it is used.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy-builtins',
  setup(bundle) {
    const filter = new RegExp(`^(node:)?(${builtinModules.join('|')})$`);
    bundle.onResolve({ filter }, ({ path, kind }) =>
      kind === 'require-call' ? null : { path: path.replace(/^node:/, ''), namespace: 'builtin' },
    );
    bundle.onLoad({ filter: /^/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule('node:${path}');`,
    }));
  },
};

/** What @kubernetes/client-node's configuration imports for its typed client, which is never made here: 11 MiB. */
const UNUSED: readonly (readonly [module: RegExp, names: readonly string[]])[] = [
  [/^undici$/, ['Agent', 'ProxyAgent']],
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

await build({
  entryPoints: ['src/main.ts'],
  outfile,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22',
  plugins: [lazyBuiltins, noTypedClient],
  // Some packages bring other code for development along.
  define: { 'process.env.NODE_ENV': '"production"' },
  // The text stays in memory. Names are kept for stack traces, and lines short enough to be shown in one.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  sourcemap: 'linked',
  sourcesContent: false,
  banner: {
    js: [
      // Short-lived objects are few here: the two halves of their space need not grow to 16 MiB each. Half a gigabyte is three times what
      // 50,000 Services of 10 endpoints keep; a heap that may have more is collected later, and larger than it need be (docs/memory.md).
      '#!/usr/bin/env -S node --max-semi-space-size=2 --max-old-space-size=512',
      "import { createRequire as __createRequire } from 'node:module';",
      'const require = __createRequire(import.meta.url);',
    ].join('\n'),
  },
  logLevel: 'warning',
});
await chmod(outfile, 0o755);
