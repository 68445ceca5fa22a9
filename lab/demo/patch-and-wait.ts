// Runs in the node's namespace: changes an EndpointSlice through the API and waits until the kernel shows it. Prints the
// milliseconds from just before the request was sent until the kernel held the wanted number of endpoints.
// Arguments: API server URL, path of the EndpointSlice, JSON list of addresses, the daemon's query socket.
import { setTimeout } from 'node:timers/promises';
import { endpointCount } from './endpoint-count.ts';

const [server = '', path = '', list = '[]', querySocket = ''] = process.argv.slice(2);
const addresses = JSON.parse(list) as string[];
const endpoints = addresses.map((address) => ({
  addresses: [address],
  nodeName: 'node-0',
  conditions: { ready: true },
}));

// The first request loads the HTTP client: that is not what is measured.
await (await fetch(`${server}${path}`, { headers: { Accept: 'application/json' } })).text();
await endpointCount(querySocket);

const sent = performance.now();
const answer = fetch(`${server}${path}`, {
  method: 'PATCH',
  headers: { 'Content-Type': 'application/merge-patch+json', Accept: 'application/json' },
  body: JSON.stringify({ endpoints }),
});
while ((await endpointCount(querySocket)) !== addresses.length && performance.now() - sent < 20_000)
  await setTimeout(1);
const took = performance.now() - sent;
const { ok, status } = await answer;
if (!ok || took >= 20_000)
  throw new Error(`status ${status}, ${await endpointCount(querySocket)} endpoints after ${took} ms`);
process.stdout.write(`${took.toFixed(1)}\n`);
