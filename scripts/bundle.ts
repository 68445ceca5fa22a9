// Bundles the daemon into one file: what a node runs holds only the code that is used (memory matters on every node).
import { chmod } from 'node:fs/promises';
import { build } from 'esbuild';

const [outfile] = process.argv.slice(2);
if (outfile === undefined) throw new Error('usage: node scripts/bundle.ts FILE');

await build({
  entryPoints: ['src/main.ts'],
  outfile,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22',
  sourcemap: 'linked',
  sourcesContent: false,
  // The package `netlink` finds its prebuilt addon by its own folder.
  external: ['netlink'],
  banner: {
    js: [
      '#!/usr/bin/env node',
      "import { createRequire as __createRequire } from 'node:module';",
      'const require = __createRequire(import.meta.url);',
    ].join('\n'),
  },
  logLevel: 'warning',
});
await chmod(outfile, 0o755);
