import { once } from 'node:events';
import { get } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { type IpAddress, formatHostPort, formatIp } from '../base/ip.ts';
import { readIp } from '../base/read-ip.ts';
import { toPort } from '../base/port.ts';
import { counted } from '../base/text/counted.ts';
import { errorText } from '../base/text/error-text.ts';
import { REPLY_API_VERSION } from '../explain/replies.ts';
import { type ConnectReply, type ConnectionReply, MOST_TARGETS } from '../explain/node/node-replies.ts';
import { aligned } from './output.ts';
import { UsageError } from './usage-error.ts';
import { wholeNumber } from './whole-number.ts';
import type { Command } from './command.ts';

const DEFAULT_SECONDS = 3;
const MOST_SECONDS = 60;

export const CONNECT: Command = {
  usage: 'IP:PORT | http://IP:PORT/PATH ... [options]',
  summary: 'whether these addresses accept a TCP connection from here, and these URLs answer with status 200',
  options: {
    timeout: { hint: 'seconds', help: `time that each has; ${DEFAULT_SECONDS} by default` },
  },
  takes: 'arguments',
  run: async ({ positionals, values }) => {
    if (positionals.length === 0 || positionals.length > MOST_TARGETS) {
      throw new UsageError(`connect needs 1 to ${MOST_TARGETS} addresses or URLs: see connect --help`);
    }
    const seconds = wholeNumber('timeout', values['timeout'] ?? String(DEFAULT_SECONDS), 1, MOST_SECONDS);
    const tries = positionals.map(tryOf);
    const connections = await Promise.all(tries.map((each) => outcomeOf(each, seconds)));
    const failed = connections.filter(({ ok }) => !ok).length;
    const reply: ConnectReply = {
      apiVersion: REPLY_API_VERSION,
      kind: 'Connect',
      node: hostname(),
      ok: failed === 0,
      verdict:
        failed === 0
          ? 'all answer'
          : `${failed} of ${counted(connections.length, 'address', 'addresses')} do not answer`,
      connections,
    };
    return { reply, lines: [reply.verdict, ...aligned(connections.map(lineOf))] };
  },
};

interface Try {
  readonly to: string;
  /** Rejects if there is no answer. */
  readonly run: (signal: AbortSignal) => Promise<void>;
}

/** IPv6 addresses may lack their brackets, as in environment variables of Pods. */
function tryOf(to: string): Try {
  const [, scheme, host = '', digits = '', path] = /^(http:\/\/)?([^/]+):(\d+)(\/.*)?$/.exec(to) ?? [];
  const address = readIp(host.replace(/^\[(.*)\]$/, '$1'));
  const port = toPort(Number(digits));
  if (address === undefined || port === undefined || (scheme === undefined) !== (path === undefined)) {
    throw new UsageError(`want IP:PORT or http://IP:PORT/PATH, got ${JSON.stringify(to)}`);
  }
  return {
    to,
    run: (signal) =>
      path === undefined
        ? openConnection(address, port, signal)
        : getPage(`http://${formatHostPort(address, port)}${path}`, signal),
  };
}

async function getPage(url: string, signal: AbortSignal): Promise<void> {
  const [response] = (await once(get(url, { signal }), 'response')) as [IncomingMessage];
  response.destroy();
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
}

async function openConnection(address: IpAddress, port: number, signal: AbortSignal): Promise<void> {
  const socket = connect({ host: formatIp(address), port });
  try {
    await once(socket, 'connect', { signal });
  } finally {
    socket.destroy();
  }
}

async function outcomeOf({ to, run }: Try, seconds: number): Promise<ConnectionReply> {
  const signal = AbortSignal.timeout(seconds * 1000);
  const began = performance.now();
  try {
    await run(signal);
    return { to, ok: true, milliseconds: Math.round(performance.now() - began) };
  } catch (error) {
    return { to, ok: false, why: signal.aborted ? `no answer within ${seconds} s` : errorText(error) };
  }
}

function lineOf({ to, ok, milliseconds, why }: ConnectionReply): string[] {
  return [to, ok ? `answers after ${milliseconds} ms` : (why ?? '')];
}
