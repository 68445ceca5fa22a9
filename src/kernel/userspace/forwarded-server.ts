import { constants } from 'node:os';
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
  const draft = { exists: before !== undefined, settings: before?.virtualServer };
  const realServers = new Map(before?.realServers);
  const failures: OpFailure[] = [];
  for (const op of ops) {
    const error = applyOp(draft, realServers, op);
    if (error !== undefined) failures.push({ op, errno: constants.errno[error], code: error, text: TEXTS[error] });
  }
  const { exists, settings } = draft;
  const after =
    exists && settings !== undefined
      ? { virtualServer: settings, realServers, listensOn: before?.listensOn }
      : undefined;
  return { after, exists, failures };
}

type ErrorName = 'ESRCH' | 'ENOENT' | 'EOPNOTSUPP' | 'EPROTONOSUPPORT';

const TEXTS: Readonly<Record<ErrorName, string>> = {
  ESRCH: 'the virtual server does not exist',
  ENOENT: 'it does not exist',
  EOPNOTSUPP: 'userspace mode has the schedulers rr, wrr and lc, and remembers single clients only',
  EPROTONOSUPPORT: 'userspace mode has no SCTP',
};

interface Draft {
  exists: boolean;
  settings: ForwardedServer['virtualServer'] | undefined;
}

/** Returns why it is not possible. */
function applyOp(draft: Draft, realServers: Map<RealServerKey, RealServer>, op: ServerOp): ErrorName | undefined {
  switch (op.kind) {
    case 'add-virtual-server':
      return setSettings(draft, op.virtualServer);
    case 'edit-virtual-server':
      return draft.exists ? setSettings(draft, op.virtualServer) : 'ESRCH';
    case 'delete-virtual-server':
      draft.exists = false;
      draft.settings = undefined;
      realServers.clear();
      return undefined;
    case 'add-real-server':
      return draft.exists ? setServer(realServers, op.realServer) : 'ESRCH';
    case 'edit-real-server':
      if (!draft.exists) return 'ESRCH';
      return realServers.has(realServerKey(op.realServer)) ? setServer(realServers, op.realServer) : 'ENOENT';
    case 'delete-real-server':
      realServers.delete(realServerKey(op.realServer));
      return undefined;
  }
}

function setSettings(draft: Draft, server: VirtualServer): ErrorName | undefined {
  const { scheduler, flags, prefix, address, protocol } = server;
  if (protocol === 'SCTP') return 'EPROTONOSUPPORT';
  const isPossible = (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
  if (!isPossible || !isScheduler(scheduler)) return 'EOPNOTSUPP';
  draft.exists = true;
  draft.settings = { ...server, scheduler };
  return undefined;
}

function setServer(realServers: Map<RealServerKey, RealServer>, server: RealServer): ErrorName | undefined {
  if (forwardingOf(server) !== FORWARDING.nat) return 'EOPNOTSUPP';
  realServers.set(realServerKey(server), server);
  return undefined;
}

/** Whether new connections have a real server to go to. */
export function isServed({ realServers }: Pick<ForwardedServer, 'realServers'>): boolean {
  for (const { weight } of realServers.values()) if (weight > 0) return true;
  return false;
}
