import type { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { Flow } from '../../src/kernel/kernel.ts';
import { formatHostPort, parseIp } from '../../src/base/ip.ts';
import { toPort } from '../../src/base/port.ts';
import { isProtocol } from '../../src/base/protocol.ts';
import { VS_PERSISTENT } from '../../src/state/virtual-server.ts';
import { address } from '../support/state.ts';

/** Lines of a "virtual servers" table, and `address 10.202.0.10` for one on kube-ipvs0: what stood there before us. */
export function layKernel(kernel: FakeKernel, lines: readonly string[]): void {
  for (const line of lines) {
    const bound = /^address (\S+)$/.exec(line)?.[1];
    if (bound !== undefined) {
      kernel.put({ kind: 'bind-address', address: address(bound) });
      continue;
    }
    const { id, scheduler, timeout, realServers } = readVirtualServer(line);
    const flags = timeout > 0 ? VS_PERSISTENT : 0;
    const prefix = typeof id.address === 'number' ? 32 : 128;
    kernel.put({ kind: 'add-virtual-server', virtualServer: { ...id, scheduler, flags, timeout, prefix } });
    for (const realServer of realServers) kernel.put({ kind: 'add-real-server', id, realServer });
  }
}

/** `TCP 10.202.0.10:80 -> 10.201.0.10:8080: 1`: so many active connections has this real server. */
export function layConnections(kernel: FakeKernel, lines: readonly string[]): void {
  for (const line of lines) {
    const [, protocol = '', at = '', server = '', count = ''] = /^(\S+) (\S+) -> (\S+): (\d+)$/.exec(line) ?? [];
    const id = { protocol: protocolOf(protocol), ...hostPort(at) };
    kernel.setObserved(id, { ...hostPort(server), weight: 1 }, { activeConnections: Number(count) });
  }
}

/** `10.200.0.100:4000 -> 10.202.0.53:53, answered by 10.201.0.10:8080`: a UDP flow of connection tracking. */
export function readFlow(line: string): Flow {
  const [, from = '', to = '', by = ''] = /^(\S+) -> (\S+), answered by (\S+)$/.exec(line) ?? [];
  const [source, destination, reply] = [hostPort(from), hostPort(to), hostPort(by)];
  return {
    family: typeof destination.address === 'number' ? 4 : 6,
    protocol: 'UDP',
    source: source.address,
    sourcePort: source.port,
    destination: destination.address,
    destinationPort: destination.port,
    replySource: reply.address,
    replySourcePort: reply.port,
  };
}

export function flowLine(flow: Flow): string {
  const from = formatHostPort(flow.source, flow.sourcePort);
  const to = formatHostPort(flow.destination, flow.destinationPort);
  return `${from} -> ${to}, answered by ${formatHostPort(flow.replySource, flow.replySourcePort)}`;
}

const VIRTUAL_SERVER = /^(TCP|UDP|SCTP) (\S+) (\w+)(?: persistent (\d+))? -> (.+)$/;

function readVirtualServer(line: string) {
  const [, protocol = '', at = '', scheduler = '', timeout = '0', servers = 'none'] = VIRTUAL_SERVER.exec(line) ?? [];
  return {
    id: { protocol: protocolOf(protocol), ...hostPort(at) },
    scheduler,
    timeout: Number(timeout),
    realServers: servers === 'none' ? [] : servers.split(', ').map(readRealServer),
  };
}

function readRealServer(text: string) {
  const [, at = '', weight = '1'] = /^(\S+)(?: \(weight (\d+)\))?$/.exec(text) ?? [];
  return { ...hostPort(at), weight: Number(weight) };
}

function hostPort(text: string) {
  const [, host = '', number] = /^\[?([^\]]+?)\]?:(\d+)$/.exec(text) ?? [];
  const found = { address: parseIp(host), port: toPort(Number(number)) };
  if (found.address === undefined || found.port === undefined) throw new Error(`no address and port: ${text}`);
  return { address: found.address, port: found.port };
}

function protocolOf(word: string) {
  if (!isProtocol(word)) throw new Error(`no protocol: ${word}`);
  return word;
}
