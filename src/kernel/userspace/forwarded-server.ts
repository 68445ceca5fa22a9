import { isIp4 } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { ServerOp } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import {
  FORWARDING,
  type RealServer,
  type RealServerKey,
  forwardingOf,
  realServerKey,
} from '../../state/real-server.ts';
import { VS_PERSISTENT, type VirtualServer } from '../../state/virtual-server.ts';
import { type RefusedOp, type ServerDraft, applyOps } from '../apply-ops.ts';
import { type Scheduler, isScheduler } from './scheduler.ts';

/** A virtual server as this process has it. Its rules know only that its connections go to the engine. */
export interface ForwardedServer {
  readonly virtualServer: VirtualServer & { readonly scheduler: Scheduler };
  /** In the order in which they were added. */
  readonly realServers: ReadonlyMap<RealServerKey, RealServer>;
  /** The port at which the engine listens for it; undefined: at none. */
  readonly listensOn?: Port | undefined;
}

/** What is known of a virtual server before operations: one that another process left has no settings yet. */
export type KnownServer = Partial<Pick<ForwardedServer, 'virtualServer' | 'listensOn'>> &
  Pick<ForwardedServer, 'realServers'>;

export interface AppliedOps {
  /** Undefined: it does not exist, or nothing is known of it but that it exists. */
  readonly after: ForwardedServer | undefined;
  readonly exists: boolean;
  readonly failures: readonly OpFailure[];
}

/**
 * Applies operations to a virtual server. A failed operation does not stop the others.
 *
 * @param before undefined if it does not exist
 */
export function applyServerOps(before: KnownServer | undefined, ops: readonly ServerOp[]): AppliedOps {
  const draft = new ForwardedDraft(before);
  const failures = applyOps(draft, ops);
  const { exists, settings, realServers } = draft;
  const after =
    exists && settings !== undefined
      ? { virtualServer: settings, realServers, listensOn: before?.listensOn }
      : undefined;
  return { after, exists, failures };
}

const UNSUPPORTED: RefusedOp = {
  code: 'EOPNOTSUPP',
  text: 'userspace mode has the schedulers rr, wrr, lc and wlc, and remembers single clients only',
};
const NO_SCTP: RefusedOp = { code: 'EPROTONOSUPPORT', text: 'userspace mode has no SCTP' };

class ForwardedDraft implements ServerDraft {
  exists: boolean;
  settings: ForwardedServer['virtualServer'] | undefined;
  readonly realServers: Map<RealServerKey, RealServer>;

  constructor(before: KnownServer | undefined) {
    this.exists = before !== undefined;
    this.settings = before?.virtualServer;
    this.realServers = new Map(before?.realServers);
  }

  set(server: VirtualServer): RefusedOp | undefined {
    const { scheduler, flags, prefix, address, protocol } = server;
    if (protocol === 'SCTP') return NO_SCTP;
    const isPossible = (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
    if (!isPossible || !isScheduler(scheduler)) return UNSUPPORTED;
    this.exists = true;
    this.settings = { ...server, scheduler };
    return undefined;
  }

  remove(): void {
    this.exists = false;
    this.settings = undefined;
    this.realServers.clear();
  }

  has(server: RealServer): boolean {
    return this.realServers.has(realServerKey(server));
  }

  put(server: RealServer): RefusedOp | undefined {
    if (forwardingOf(server) !== FORWARDING.nat) return UNSUPPORTED;
    this.realServers.set(realServerKey(server), server);
    return undefined;
  }

  drop(server: RealServer): void {
    this.realServers.delete(realServerKey(server));
  }
}

/** Whether new connections have a real server to go to. */
export function isServed({ realServers }: Pick<ForwardedServer, 'realServers'>): boolean {
  for (const { weight } of realServers.values()) if (weight > 0) return true;
  return false;
}
