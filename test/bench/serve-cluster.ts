// The API server for tests, filled with a large cluster: node test/bench/serve-cluster.ts --services 10000 --kubeconfig FILE
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { ApiServer } from '../apiserver/api-server.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { type ClusterShape, nodeObject, serviceObjects, sliceObjects } from './large-cluster.ts';

const { values } = parseArgs({
  options: {
    services: { type: 'string', default: '1000' },
    endpoints: { type: 'string', default: '1' },
    'dual-stack-every': { type: 'string', default: '0' },
    'node-port-every': { type: 'string', default: '0' },
    'udp-every': { type: 'string', default: '0' },
    'load-balancer-every': { type: 'string', default: '0' },
    kubeconfig: { type: 'string' },
  },
});

const shape: ClusterShape = {
  services: Number(values.services),
  endpoints: Number(values.endpoints),
  dualStackEvery: Number(values['dual-stack-every']),
  nodePortEvery: Number(values['node-port-every']),
  udpEvery: Number(values['udp-every']),
  loadBalancerEvery: Number(values['load-balancer-every']),
};
const server = new ApiServer();
server.apply(nodeObject());
for (const object of serviceObjects(shape)) server.apply(object);
for (const object of sliceObjects(shape)) server.apply(object);
// Nobody resumes from before the start.
server.compact();
const url = await server.start();
if (values.kubeconfig !== undefined) await writeFile(values.kubeconfig, kubeconfig({ server: url }), { mode: 0o600 });
process.stdout.write(`${url}\n`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void server.stop());
