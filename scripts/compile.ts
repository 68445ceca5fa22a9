// Writes what V8 makes of the bundle to a file beside it, for src/launcher.ts: a start ends where its kubeconfig names no context, before it
// has connected or written anywhere, and all that was compiled up to there need not be compiled again.
import { hash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Script } from 'node:vm';

type Program = (require: NodeJS.Require, url: string) => void;

const KUBECONFIG = `apiVersion: v1
kind: Config
clusters: [{ name: here, cluster: { server: 'https://127.0.0.1:6443', certificate-authority-data: Cg== } }]
users:
  - name: proxy
    user: { tokenFile: /nonexistent }
contexts:
  - name: here
    context: { cluster: here, user: proxy }
`;

const [file, cache] = process.argv.slice(2);
if (file === undefined || cache === undefined) throw new Error('usage: node scripts/compile.ts BUNDLE CACHE');

const folder = mkdtempSync(path.join(tmpdir(), 'compile-'));
const kubeconfig = path.join(folder, 'kubeconfig');
writeFileSync(kubeconfig, KUBECONFIG);

const text = readFileSync(file);
const script = new Script(text.toString('latin1'), { filename: file });
process.argv = [process.execPath, file, '--proxy-mode=ipvs', `--kubeconfig=${kubeconfig}`];
let said = '';
process.stderr.write = (line) => {
  said += String(line);
  return true;
};
process.on('exit', () => {
  rmSync(folder, { recursive: true });
  if (!said.includes('has no current-context')) throw new Error(`the start ended elsewhere: ${said}`);
  process.exitCode = 0;
  const data = script.createCachedData();
  writeFileSync(cache, Buffer.concat([hash('sha256', text, 'buffer'), hash('sha256', data, 'buffer'), data]));
});
const { href } = pathToFileURL(path.resolve(file));
(script.runInThisContext() as Program)(createRequire(href), href);
