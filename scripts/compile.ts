// Compiles the bundle ahead of time: node scripts/compile.ts FILE.js FILE.cache
// FILE.cache has two CRC-32s (of the bundle, and of what follows), then V8's code cache, with all functions that a start of
// the daemon calls until it finds no kubeconfig. The same bundle and Node.js give the same bytes.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Script } from 'node:vm';
import { crc32 } from 'node:zlib';
import type { Program } from '../src/launcher.ts';

/** Where the header of a code cache has the hash of V8's flags (V8's src/snapshot/code-serializer.h), 4 bytes. */
const FLAGS_AT = 12;
/** Makes V8's hash tables, and thus the bytes, the same in each run. */
const SEEDS = ['--hash-seed=1', '--random-seed=1'];
/** The start ends here. */
const LAST_ERROR = 'failed to read kubeconfig /nonexistent';
const NAME = 'kube-ipvs-proxy.js';

/** Starts the daemon in this process, and writes the code cache when it ends. */
function start(text: string, cache: string): void {
  const script = new Script(text, { filename: NAME });
  let errors = '';
  process.stderr.write = (line) => {
    errors += String(line);
    return true;
  };
  process.once('exit', () => {
    if (!errors.includes(LAST_ERROR)) throw new Error(`the start ended elsewhere: ${errors}`);
    writeFileSync(cache, script.createCachedData());
    process.exitCode = 0;
  });
  process.argv = [process.execPath, NAME, '--proxy-mode=ipvs', '--kubeconfig=/nonexistent'];
  (script.runInThisContext() as Program)(createRequire('file:///'), `file:///${NAME}`);
}

function compile(bundle: string, cache: string): void {
  const text = readFileSync(bundle);
  // The environment, and what the standard streams are, would change the bytes, too.
  execFileSync(process.execPath, [...SEEDS, import.meta.filename, bundle, cache, 'start'], { stdio: 'pipe', env: {} });
  const data = readFileSync(cache);
  // V8 takes only what was compiled with its own flags. The seeds do not change what is compiled.
  new Script('').createCachedData().copy(data, FLAGS_AT, FLAGS_AT, FLAGS_AT + 4);
  const { cachedDataRejected } = new Script(text.toString('latin1'), { cachedData: data });
  if (cachedDataRejected !== false) throw new Error('V8 does not take the code cache');
  const sums = Buffer.alloc(8);
  sums.writeUInt32LE(crc32(text), 0);
  sums.writeUInt32LE(crc32(data), 4);
  writeFileSync(cache, Buffer.concat([sums, data]));
}

const [bundle, cache, step] = process.argv.slice(2);
if (bundle === undefined || cache === undefined) throw new Error('usage: node scripts/compile.ts FILE.js FILE.cache');
if (step === 'start') start(readFileSync(bundle, 'latin1'), cache);
else compile(bundle, cache);
