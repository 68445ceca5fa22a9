// Starts the bundled program (scripts/bundle.ts): one function expression in kube-ipvs-proxy.js beside this file.
// kube-ipvs-proxy.cache has its compiled form (scripts/compile.ts), which saves a third of the CPU time of a start. If it
// is missing, damaged, or of another bundle or V8, V8 compiles the program.
// An old Node.js must be able to run the version check: this file is bundled with the syntax of Node.js 12.20 and has
// no static import (a static import would also load more of a module than is used).
import type { Buffer } from 'node:buffer';

export type Program = (require: NodeJS.Require, url: string) => void;

/** The minimum version: major and minor of `engines` in package.json. */
const NEEDED = [22, 19] as const;

function isNodeTooOld(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  return major < NEEDED[0] || (major === NEEDED[0] && minor < NEEDED[1]);
}

/** Writes an error that names a newer Node.js: the one that `make build` installs if the system's is too old. */
async function refuse(): Promise<void> {
  const [{ existsSync }, { fileURLToPath }] = await Promise.all([import('node:fs'), import('node:url')]);
  const folder = fileURLToPath(new URL(`../.node/node_modules/node-linux-${process.arch}/bin`, import.meta.url));
  const remedy = existsSync(`${folder}/node`)
    ? `\`make build\` left one in ${folder}, put that folder first in PATH`
    : 'install one, or run `make build`, which puts one into .node of its folder';
  process.stderr.write(
    `kube-ipvs-proxy needs Node.js ${NEEDED.join('.')} or newer, but ${process.execPath} is ${process.versions.node}: ${remedy}\n`,
  );
  process.exitCode = 1;
}

/** Returns the code cache of the bundle. V8 checks that it is its own, but ends the process if bytes are damaged. */
function codeCache(bundle: Buffer): Buffer | undefined {
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const { crc32 } = process.getBuiltinModule('node:zlib');
  try {
    const file = readFileSync(new URL('./kube-ipvs-proxy.cache', import.meta.url));
    const data = file.subarray(8);
    return file.readUInt32LE(0) === crc32(bundle) && file.readUInt32LE(4) === crc32(data) ? data : undefined;
  } catch {
    return undefined;
  }
}

function start(): void {
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const { createRequire } = process.getBuiltinModule('node:module');
  const { Script } = process.getBuiltinModule('node:vm');

  const url = new URL('./kube-ipvs-proxy.js', import.meta.url);
  const bundle = readFileSync(url);
  // The bundle is ASCII, so latin1 avoids the cost of decoding UTF-8.
  const script = new Script(bundle.toString('latin1'), { filename: url.pathname, cachedData: codeCache(bundle) });
  (script.runInThisContext() as Program)(createRequire(url), url.href);
}

if (isNodeTooOld()) void refuse();
else start();
