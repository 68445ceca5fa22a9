// engine-process.ts PORT ENDPOINT: the user-space engine with one TCP port at 127.0.0.1 and one endpoint there. Prints a line when it listens.
import { type IpAddress, parseIp } from '../../src/base/ip.ts';
import type { Port } from '../../src/base/port.ts';
import { DEFAULT_LIMITS } from '../../src/userspace/engine-limits.ts';
import { EngineThread } from '../../src/userspace/engine-thread.ts';

const [port, endpoint] = process.argv.slice(2).map((text) => Number(text) as Port);
if (port === undefined || endpoint === undefined) throw new Error('want a port and that of the endpoint');
const address = parseIp('127.0.0.1') as IpAddress;
const key = 'default/bench';
const engine = new EngineThread({
  limits: { ...DEFAULT_LIMITS, mostOfService: DEFAULT_LIMITS.mostInAll, mostInAll: 2 * DEFAULT_LIMITS.mostInAll },
  onRefused: ({ code }) => process.stderr.write(`refused: ${code}\n`),
  onFailure: (reason) => process.stderr.write(`failed: ${reason}\n`),
});
await engine.apply({
  whole: true,
  ports: [
    {
      key,
      service: key,
      protocol: 'TCP',
      endpoints: [{ address, port: endpoint, weight: 1 }],
      choice: 'rr',
      affinitySeconds: 0,
    },
  ],
  listeners: [{ address, port, protocol: 'TCP', key }],
});
process.stdout.write('listening\n');
