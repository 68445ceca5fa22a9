// Sends and serves test traffic in one namespace. Reads commands and writes replies, one JSON object per line.
// Long-lived, because starting a Node.js process takes a second on the test kernel.
import { createInterface } from 'node:readline';

import type { AgentCommand, AgentReply, AgentRequest, AgentResults } from './agent-protocol.ts';
import { HeldConnection, load, probe, probeAll } from './traffic-client.ts';
import { serveTcp, serveUdp } from './traffic-server.ts';

const SERVE = {
  tcp: serveTcp,
  udp: serveUdp,
  sctp: () => Promise.reject(new Error('Node.js has no SCTP: use sctp_agent.py')),
};

const closers = new Map<number, () => void>();
const held = new Map<number, HeldConnection>();
let lastHandle = 0;

function keep(close: () => void): number {
  lastHandle += 1;
  closers.set(lastHandle, close);
  return lastHandle;
}

async function perform(command: AgentCommand): Promise<AgentResults[keyof AgentResults]> {
  switch (command.do) {
    case 'serve': {
      const serve = SERVE[command.protocol];
      return { handle: keep(await serve(command.address, command.port, command.name)) };
    }
    case 'stop':
      closers.get(command.handle)?.();
      closers.delete(command.handle);
      held.delete(command.handle);
      return {};
    case 'probe':
      return await probe(command);
    case 'probeAll':
      return await probeAll(command.probes, command.parallel);
    case 'hold': {
      const connection = new HeldConnection(command.target);
      const first = await connection.ask(command.timeoutMs);
      const handle = keep(() => {
        connection.close();
      });
      held.set(handle, connection);
      return { handle, first };
    }
    case 'askHeld': {
      const connection = held.get(command.handle);
      return connection === undefined ? { ok: false, code: 'CLOSED' } : await connection.ask(command.timeoutMs);
    }
    case 'load':
      return await load(command.protocol, command.target, command.load);
  }
}

async function answer(request: AgentRequest): Promise<void> {
  const reply: AgentReply = await perform(request).then(
    (result) => ({ id: request.id, result }),
    (error: unknown) => ({ id: request.id, error: String(error) }),
  );
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line) as AgentRequest);
}
// stdin was closed, so the bed was disposed.
process.exit(0);
