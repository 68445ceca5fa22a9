/** Commands to an agent, one JSON object per line on its stdin. Each gets one `AgentReply` on its stdout. */
export type AgentCommand =
  | {
      readonly do: 'serve';
      readonly protocol: Transport;
      readonly address: string;
      readonly port: number;
      readonly name: string;
    }
  | { readonly do: 'stop'; readonly handle: number }
  | ({ readonly do: 'probe' } & ProbeRequest)
  | { readonly do: 'probeAll'; readonly probes: readonly ProbeRequest[]; readonly parallel: number }
  | { readonly do: 'hold'; readonly target: Target; readonly timeoutMs: number }
  | { readonly do: 'askHeld'; readonly handle: number; readonly timeoutMs: number }
  | { readonly do: 'load'; readonly protocol: Transport; readonly target: Target; readonly load: LoadShape };

export type Transport = 'tcp' | 'udp' | 'sctp';

export interface ProbeRequest {
  readonly protocol: Transport;
  readonly target: Target;
  readonly timeoutMs: number;
  /** At least as many bytes has the request over UDP. */
  readonly bytes?: number;
  /** At least as many bytes has the answer over UDP. */
  readonly answerBytes?: number;
}

export interface Target {
  readonly address: string;
  readonly port: number;
  /** Source port; default: one that no recent probe of this agent used. */
  readonly sourcePort?: number;
  /** Source address of a held connection; default: what the kernel chooses. */
  readonly sourceAddress?: string;
  /** Whether a held connection ends with a reset, which IPVS forgets after 10 s in place of two minutes. */
  readonly reset?: boolean;
}

export interface LoadShape {
  readonly perSecond: number;
  readonly durationMs: number;
  /** For each request. */
  readonly timeoutMs: number;
}

/** A server's reply, with the client address that it saw. */
export interface Answer {
  readonly ok: true;
  /** The name given to the server at its start. */
  readonly answeredBy: string;
  /** The source address that the server saw; IPv4 in dotted form even on a dual-stack socket. */
  readonly sourceSeen: string;
  readonly sourcePort: number;
}

/** `code`: name of the errno (ECONNREFUSED...), TIMEOUT without a reply, CLOSED if the connection closed early. */
export interface NoAnswer {
  readonly ok: false;
  readonly code: string;
}

export type ProbeResult = Answer | NoAnswer;

export interface LoadResult {
  readonly sent: number;
  /** Number of answers by the name of the server. */
  readonly answers: Readonly<Record<string, number>>;
  /** Number of failures by their code. */
  readonly failures: Readonly<Record<string, number>>;
}

export interface AgentResults {
  serve: { readonly handle: number };
  stop: Record<string, never>;
  probe: ProbeResult;
  /** In the order of the probes. */
  probeAll: readonly ProbeResult[];
  hold: { readonly handle: number; readonly first: ProbeResult };
  askHeld: ProbeResult;
  load: LoadResult;
}

export type AgentRequest = AgentCommand & { readonly id: number };

export type AgentReply =
  | { readonly id: number; readonly result: AgentResults[keyof AgentResults] }
  | { readonly id: number; readonly error: string };
