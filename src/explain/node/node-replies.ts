import type { Listed, Reply } from '../replies.ts';

/** The Services of a node, those with problems first. */
export interface ServicesReply extends Reply<'Services'> {
  readonly rows: readonly ServiceRow[];
  /** The number of rows beyond those listed. */
  readonly more: number;
}

export interface ServiceRow {
  /** "namespace/name" */
  readonly service: string;
  /** The number of endpoints that any of its clients reach. */
  readonly endpoints: number;
  /** Connections that the kernel has now; absent in modes without IPVS. */
  readonly activeConnections?: number;
  readonly inactiveConnections?: number;
  readonly problems: readonly string[];
}

/** Targets of one question of ConnectReply. */
export const MOST_TARGETS = 64;

/** Which addresses answer to this node. */
export interface ConnectReply extends Reply<'Connect'> {
  readonly connections: readonly ConnectionReply[];
}

export interface ConnectionReply {
  /** IP:PORT or a URL, as it was asked. */
  readonly to: string;
  readonly ok: boolean;
  /** Until it answered. */
  readonly milliseconds?: number;
  /** Why it does not answer. */
  readonly why?: string;
}

/** What a support archive has of a node, beside its status. */
export interface SupportReply extends Reply<'Support'> {
  readonly versions: { readonly kernel: string; readonly nodejs: string; readonly architecture: string };
  /** As on /configz. It has paths of credentials, and no credentials. */
  readonly configuration: unknown;
  /** As on /flagz. */
  readonly flags: readonly string[];
  /** As on /metrics. */
  readonly metrics: string;
  /** Of the kernel, also those of other programs. */
  readonly virtualServers: Listed<{
    readonly at: string;
    readonly scheduler: string;
    readonly realServers: readonly {
      readonly at: string;
      readonly weight: number;
      /** Upper and lower threshold of connections, such as 100/80; absent: none. */
      readonly limit?: string;
      readonly activeConnections: number;
      readonly inactiveConnections: number;
    }[];
  }>;
  readonly sets: readonly ({ readonly name: string } & Listed<string>)[];
  /** Our nf_tables tables, as the lines of a script for nft; none in modes without them. */
  readonly tables: readonly string[];
  /** On kube-ipvs0. */
  readonly addresses: readonly string[];
}
