import type { DualStack } from './address-plan.ts';
import { AgentClient, SCTP_AGENT } from './agent-client.ts';
import type { LoadResult, LoadShape, ProbeRequest, ProbeResult, Target, Transport } from './agent-protocol.ts';
import { type CommandOptions, type CommandResult, runCommand } from './command.ts';
import { LongProcess } from './long-process.ts';
import { patient } from './patience.ts';

/** Time for an agent's reply on a slow kernel, in addition to the agent's own timeouts. */
const REPLY_MARGIN_MS = 60_000;
const PROBE_TIMEOUT_MS = 2000;

export interface ServeOptions {
  /** Default `::`, which also accepts IPv4. */
  readonly address?: string;
  /** Name in the server's replies; default: the name of the namespace. */
  readonly name?: string;
}

export interface ProbeOptions {
  /** Default 2000. */
  readonly timeoutMs?: number;
  readonly sourcePort?: number;
  readonly sourceAddress?: string;
  readonly reset?: boolean;
  /** At least as many bytes has the request over UDP. */
  readonly bytes?: number;
  /** At least as many bytes has the answer over UDP. */
  readonly answerBytes?: number;
}

/** A server or connection that an agent keeps until it is closed or the bed is disposed. */
export interface Kept {
  close(): Promise<void>;
}

export interface KeptConnection extends Kept {
  readonly first: ProbeResult;
  /** Asks again on the same connection. */
  ask(timeoutMs?: number): Promise<ProbeResult>;
}

/** One host of the bed: a network namespace, with an agent for traffic that starts when it is first needed. */
export class Namespace implements AsyncDisposable {
  /** Short name: node-0, pod-0-1, client-0. */
  readonly name: string;
  /** The name in `ip netns`. */
  readonly netns: string;
  readonly addresses: DualStack;
  readonly #processes: LongProcess[] = [];
  #agent: AgentClient | undefined;
  #sctpAgent: AgentClient | undefined;

  constructor(name: string, netns: string, addresses: DualStack) {
    this.name = name;
    this.netns = netns;
    this.addresses = addresses;
  }

  /** Runs a program in the namespace to its end; see `runCommand`. */
  exec(argv: readonly string[], options?: CommandOptions): Promise<CommandResult> {
    return runCommand(this.#inside(argv), options);
  }

  /** Feeds lines to `ip -batch`, which stops at the first that fails. */
  async ip(lines: readonly string[]): Promise<void> {
    await runCommand(['ip', '-n', this.netns, '-batch', '-'], { input: `${lines.join('\n')}\n` });
  }

  /** Sets sysctls of this namespace, by their dotted names. */
  async sysctl(values: Readonly<Record<string, number>>): Promise<void> {
    for (const value of new Set(Object.values(values))) {
      const files = Object.keys(values)
        .filter((name) => values[name] === value)
        .map((name) => `/proc/sys/${name.replaceAll('.', '/')}`);
      await this.exec(['tee', ...files], { input: `${value}` });
    }
  }

  /** Starts a long-lived program in the namespace. Disposal of the bed stops it. */
  async spawn(argv: readonly string[], env?: NodeJS.ProcessEnv): Promise<LongProcess> {
    const started = await LongProcess.start(this.#inside(argv), env);
    this.#processes.push(started);
    return started;
  }

  serveTcp(port: number, options?: ServeOptions): Promise<Kept> {
    return this.#serve('tcp', port, options);
  }

  serveUdp(port: number, options?: ServeOptions): Promise<Kept> {
    return this.#serve('udp', port, options);
  }

  /** By default one server per own address: a client that learns of several tries all, bypassing any service. */
  async serveSctp(port: number, options: ServeOptions = {}): Promise<Kept> {
    const addresses = options.address === undefined ? [this.addresses.v4, this.addresses.v6] : [options.address];
    const kept = await Promise.all(addresses.map((address) => this.#serve('sctp', port, { ...options, address })));
    return {
      close: async () => {
        await Promise.all(kept.map((server) => server.close()));
      },
    };
  }

  probeTcp(address: string, port: number, options?: ProbeOptions): Promise<ProbeResult> {
    return this.probe('tcp', address, port, options);
  }

  probeUdp(address: string, port: number, options?: ProbeOptions): Promise<ProbeResult> {
    return this.probe('udp', address, port, options);
  }

  probeSctp(address: string, port: number, options?: ProbeOptions): Promise<ProbeResult> {
    return this.probe('sctp', address, port, options);
  }

  /** Sends one request on a new connection or socket. A network error is a result, not an exception. */
  probe(protocol: Transport, address: string, port: number, options: ProbeOptions = {}): Promise<ProbeResult> {
    const { bytes = 0, answerBytes = 0 } = options;
    const timeoutMs = patient(options.timeoutMs ?? PROBE_TIMEOUT_MS);
    const target = targetOf(address, port, options);
    const agent = this.#agentFor(protocol);
    const command = { do: 'probe', protocol, target, timeoutMs, bytes, answerBytes } as const;
    return agent.ask(command, timeoutMs + REPLY_MARGIN_MS);
  }

  /** Starts the probes in order (SCTP separately), at most `parallel` at a time. Returns the results in that order. */
  async probeAll(probes: readonly ProbeRequest[], parallel = 16): Promise<readonly ProbeResult[]> {
    const limit = probes.reduce((sum, { timeoutMs }) => sum + timeoutMs, REPLY_MARGIN_MS);
    const ask = async (agent: () => AgentClient, part: readonly ProbeRequest[]): Promise<readonly ProbeResult[]> =>
      part.length === 0 ? [] : agent().ask({ do: 'probeAll', probes: part, parallel }, limit);
    const isSctp = ({ protocol }: ProbeRequest): boolean => protocol === 'sctp';
    const [sctp, others] = await Promise.all([
      ask(
        () => this.#agentFor('sctp'),
        probes.filter((probe) => isSctp(probe)),
      ),
      ask(
        () => this.agent(),
        probes.filter((probe) => !isSctp(probe)),
      ),
    ]);
    const results = { sctp: sctp.values(), others: others.values() };
    return probes.map((probe) => {
      const { value } = results[isSctp(probe) ? 'sctp' : 'others'].next();
      if (value === undefined) throw new Error(`agent in ${this.netns}: fewer results than probes`);
      return value;
    });
  }

  /** Opens a TCP connection, sends one request, and keeps it open. */
  async hold(address: string, port: number, options: ProbeOptions = {}): Promise<KeptConnection> {
    const timeoutMs = patient(options.timeoutMs ?? PROBE_TIMEOUT_MS);
    const target = targetOf(address, port, options);
    const { handle, first } = await this.agent().ask({ do: 'hold', target, timeoutMs }, timeoutMs + REPLY_MARGIN_MS);
    return {
      first,
      ask: (wait = PROBE_TIMEOUT_MS) =>
        this.agent().ask({ do: 'askHeld', handle, timeoutMs: patient(wait) }, wait + REPLY_MARGIN_MS),
      close: () => close(this.agent(), handle),
    };
  }

  /** Sends requests at an even rate, each on a new connection or socket. Resolves when all are done. */
  load(protocol: Transport, address: string, port: number, shape: LoadShape): Promise<LoadResult> {
    const limit = shape.durationMs * 2 + shape.timeoutMs + REPLY_MARGIN_MS;
    const load = { ...shape, timeoutMs: patient(shape.timeoutMs) };
    return this.agent().ask({ do: 'load', protocol, target: { address, port }, load }, limit);
  }

  /** Returns the agent of this namespace; starts it at the first call. */
  agent(): AgentClient {
    this.#agent ??= new AgentClient(this.netns);
    return this.#agent;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([
      this.#agent?.[Symbol.asyncDispose](),
      this.#sctpAgent?.[Symbol.asyncDispose](),
      ...this.#processes.map((process) => process.stop()),
    ]);
    this.#agent = undefined;
    this.#sctpAgent = undefined;
  }

  async #serve(protocol: Transport, port: number, options: ServeOptions = {}): Promise<Kept> {
    const { address = '::', name = this.name } = options;
    const agent = this.#agentFor(protocol);
    const { handle } = await agent.ask({ do: 'serve', protocol, address, port, name }, REPLY_MARGIN_MS);
    return { close: () => close(agent, handle) };
  }

  #agentFor(protocol: Transport): AgentClient {
    if (protocol !== 'sctp') return this.agent();
    this.#sctpAgent ??= new AgentClient(this.netns, SCTP_AGENT);
    return this.#sctpAgent;
  }

  #inside(argv: readonly string[]): readonly string[] {
    return ['ip', 'netns', 'exec', this.netns, ...argv];
  }
}

async function close(agent: AgentClient, handle: number): Promise<void> {
  await agent.ask({ do: 'stop', handle }, REPLY_MARGIN_MS);
}

function targetOf(address: string, port: number, { sourcePort, sourceAddress, reset }: ProbeOptions): Target {
  return {
    address,
    port,
    ...(sourcePort === undefined ? {} : { sourcePort }),
    ...(sourceAddress === undefined ? {} : { sourceAddress }),
    ...(reset === undefined ? {} : { reset }),
  };
}
