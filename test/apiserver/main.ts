import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadAll } from 'js-yaml';
import { ApiServer } from './api-server.ts';
import { isRecord } from './json-object.ts';
import type { JsonObject } from './json-object.ts';
import { kubeconfig } from './kubeconfig.ts';

const USAGE = `usage: node test/apiserver/main.ts [--port N] [--host ADDRESS] [--objects DIR] [--kubeconfig FILE]
Serves the objects of a directory of YAML or JSON files; prints its URL; writes a kubeconfig for itself. Ends on SIGTERM.`;

async function loadObjects(server: ApiServer, directory: string): Promise<void> {
  for (const name of (await readdir(directory)).filter((file) => /\.(ya?ml|json)$/.test(file)).toSorted()) {
    for (const value of loadAll(await readFile(join(directory, name), 'utf8'))) {
      const items = isRecord(value) && value['kind'] === 'List' ? value['items'] : [value];
      for (const item of Array.isArray(items) ? (items as readonly unknown[]) : []) {
        if (isRecord(item)) server.apply(item as JsonObject);
      }
    }
  }
}

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    objects: { type: 'string' },
    kubeconfig: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}
const server = new ApiServer({ port: Number(values.port), host: values.host });
if (values.objects !== undefined) await loadObjects(server, values.objects);
const url = await server.start();
if (values.kubeconfig !== undefined) await writeFile(values.kubeconfig, kubeconfig({ server: url }), { mode: 0o600 });
process.stdout.write(`${url}\n`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void server.stop());
