// The API server for tests, filled with a large cluster: node test/bench/serve-cluster.ts SHAPE KUBECONFIG
// Then, for each line on stdin, {"services": [1, 2], "endpoints": 3}: those services' slices get so many endpoints,
// and one line is
// written: when the first was given to the watches, in nanoseconds of the monotonic clock. It ends with its stdin.
import { writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { ApiServer } from '../apiserver/api-server.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
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

const [shapeText = '', file] = process.argv.slice(2);
if (file === undefined) throw new Error('usage: node test/bench/serve-cluster.ts SHAPE KUBECONFIG');
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
  const { services, endpoints } = JSON.parse(line) as Scaling;
  const slices = services.map((service) => scaledSlice(service, shape, endpoints));
  const given = process.hrtime.bigint();
  for (const slice of slices) server.apply(slice);
  process.stdout.write(`${given}\n`);
  server.compact();
}
await server.stop();
