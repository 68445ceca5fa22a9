// The API server for tests, filled with a large cluster: node lab/bench/serve-cluster.ts SHAPE KUBECONFIG
// It answers each line on stdin with a line:
// - {"services": [1, 2], "endpoints": 3}: those services' slices get so many endpoints. The answer is when the first was
//   given to the watches, in nanoseconds of the monotonic clock.
// - {"get": "http://127.0.0.1:10249/metrics"}: the answer is the text at that URL as JSON, or null if nothing answers. No
//   process starts for it, so that it hardly disturbs what is measured.
// It ends with its stdin.
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type IncomingMessage, get } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { ApiServer } from '../../test/apiserver/api-server.ts';
import { kubeconfig } from '../../test/apiserver/kubeconfig.ts';
import {
  type ClusterShape,
  kubernetesObjects,
  nodeObject,
  scaledSlice,
  serviceObjects,
  sliceObjects,
} from './large-cluster.ts';

/** Service numbers, and how many IPv4 endpoints each has from now on. */
export interface Scaling {
  readonly services: readonly number[];
  readonly endpoints: number;
}

export interface Get {
  readonly get: string;
}

const [shapeText = '', file] = process.argv.slice(2);
if (file === undefined) throw new Error('usage: node lab/bench/serve-cluster.ts SHAPE KUBECONFIG');
const shape = JSON.parse(shapeText) as ClusterShape;
const server = new ApiServer();
server.apply(nodeObject());
for (const object of kubernetesObjects()) server.apply(object);
for (const object of serviceObjects(shape)) server.apply(object);
for (const object of sliceObjects(shape)) server.apply(object);
// No client resumes from before the start.
server.compact();
const url = await server.start();
await writeFile(file, kubeconfig({ server: url }), { mode: 0o600 });
process.stdout.write(`${url}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line) as Scaling | Get;
  if ('get' in question) {
    process.stdout.write(`${JSON.stringify(await textAt(question.get))}\n`);
    continue;
  }
  const { services, endpoints } = question;
  const slices = services.map((service) => scaledSlice(service, shape, endpoints));
  const given = process.hrtime.bigint();
  for (const slice of slices) server.apply(slice);
  process.stdout.write(`${given}\n`);
  server.compact();
}
await server.stop();

async function textAt(url: string): Promise<string | null> {
  try {
    const [response] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
    return await text(response);
  } catch {
    return null;
  }
}
