// Runs in the node's namespace: changes an EndpointSlice through the API and waits until the kernel shows it. Prints the
// milliseconds from just before the request was sent until /proc/net/ip_vs held the wanted number of real servers.
// Arguments: API server URL, path of the EndpointSlice, virtual server as /proc/net/ip_vs writes it, JSON list of addresses.
import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const [server = '', path = '', virtualServer = '', list = '[]'] = process.argv.slice(2);
const addresses = JSON.parse(list) as string[];
const endpoints = addresses.map((address) => ({
  addresses: [address],
  nodeName: 'node-0',
  conditions: { ready: true },
}));

/** Real servers that take new connections. */
function realServers(): number {
  const lines = readFileSync('/proc/net/ip_vs', 'utf8').split('\n');
  const start = lines.findIndex((line) => line.includes(virtualServer));
  let count = 0;
  for (const line of lines.slice(start + 1)) {
    if (!line.startsWith('  -> ')) break;
    if (!/\s0\s+\d+\s+\d+\s*$/.test(line)) count += 1;
  }
  return start < 0 ? -1 : count;
}

// The first request loads the HTTP client: that is not what is measured.
await (await fetch(`${server}${path}`, { headers: { Accept: 'application/json' } })).text();
realServers();

const sent = performance.now();
const answer = fetch(`${server}${path}`, {
  method: 'PATCH',
  headers: { 'Content-Type': 'application/merge-patch+json', Accept: 'application/json' },
  body: JSON.stringify({ endpoints }),
});
while (realServers() !== addresses.length && performance.now() - sent < 20_000) await setTimeout(1);
const took = performance.now() - sent;
const { ok, status } = await answer;
if (!ok || took >= 20_000) throw new Error(`status ${status}, ${realServers()} real servers after ${took} ms`);
process.stdout.write(`${took.toFixed(1)}\n`);
