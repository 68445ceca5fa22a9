// The traffic client: new connections at an even rate and long ones, to targets in turn. It runs in a Pod and on the host,
// on Node.js alone. `node main.ts ORDER`, where ORDER is a ClientOrder as JSON.
import { existsSync } from 'node:fs';
import type { ClientOrder } from './lines.ts';
import { LocalPorts } from './local-ports.ts';
import { LongConnection } from './long-connection.ts';
import { askOnce } from './new-connection.ts';
import { Report } from './report.ts';

/** A client that cannot keep up begins this many connections at once, at most. */
const MAX_BURST = 10;
/** What nobody stops ends anyway. */
const MAX_SECONDS = 3600;

function openConnections(connections: readonly LongConnection[]): Record<string, number> {
  const open: Record<string, number> = {};
  for (const { served } of connections) if (served !== undefined) open[served] = (open[served] ?? 0) + 1;
  return open;
}

function main(order: ClientOrder): void {
  const { targets, newPerSecond, longConnections, stopFile } = order;
  const report = new Report(order.output);
  const ports = new LocalPorts();
  const target = (index: number) => {
    const found = targets[index % targets.length];
    if (found === undefined) throw new Error('the order has no targets');
    return found;
  };
  const long = Array.from({ length: longConnections }, (_, index) => new LongConnection(target(index), report, ports));
  for (const [index, connection] of long.entries()) {
    setTimeout(() => {
      connection.open();
    }, index * 50);
  }
  const begin = performance.now();
  let begun = 0;
  let skipped = 0;
  const asking = setInterval(() => {
    const due = Math.floor(((performance.now() - begin) * newPerSecond) / 1000) - skipped;
    const count = Math.min(due - begun, MAX_BURST);
    skipped += due - begun - count;
    for (let n = 0; n < count; n++) askOnce(target(begun++), report, ports);
  }, 20);
  const ticking = setInterval(() => {
    report.tick('tick', openConnections(long));
    if (existsSync(stopFile) || performance.now() - begin > MAX_SECONDS * 1000) {
      clearInterval(ticking);
      clearInterval(asking);
      // What was asked last has its time to be answered.
      setTimeout(() => {
        report.tick('end', openConnections(long));
        for (const connection of long) connection.end();
        process.exit();
      }, 6000);
    }
  }, 1000);
}

main(JSON.parse(process.argv[2] ?? '{}') as ClientOrder);
