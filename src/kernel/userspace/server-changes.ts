import { constants } from 'node:os';
import { type Op, type ServerOp, virtualServerOf } from '../../state/op.ts';
import type { OpFailure, Refusal } from '../../state/outcome.ts';
import { type RealServer, realServerKey } from '../../state/real-server.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { type ServerOps, byVirtualServer } from '../translated-ops.ts';
import type { EngineServers } from './engine-servers.ts';
import { type ForwardedServer, type KnownServer, applyServerOps, isServed } from './forwarded-server.ts';
import { type FoundRules, ruleOps } from './rule-ops.ts';

/** The operations on a virtual server, and what comes of them. */
interface Change extends ServerOps {
  readonly key: VirtualServerKey;
  readonly found: FoundRules | undefined;
  readonly after: ForwardedServer | undefined;
  readonly exists: boolean;
  readonly failures: readonly OpFailure[];
}

/** Returns what the table has of virtual servers. */
export type FindRules = (units: readonly ServerOps[]) => Promise<ReadonlyMap<VirtualServerKey, FoundRules>>;

/** A transaction of which the engine has what it adds. Its rules come next, and then `end`. */
export class ServerChanges {
  /** What is to be written: the operations on the table, and those on other objects. */
  readonly ops: readonly Op[];
  readonly #servers: EngineServers;
  readonly #changes: readonly Change[];
  readonly #refusals: ReadonlyMap<VirtualServerKey, Refusal>;

  private constructor(
    servers: EngineServers,
    changes: readonly Change[],
    others: readonly Op[],
    refusals: ReadonlyMap<VirtualServerKey, Refusal>,
  ) {
    this.#servers = servers;
    this.#changes = changes;
    this.#refusals = refusals;
    const possible = changes.filter(({ key }) => !refusals.has(key));
    this.ops = [...others, ...possible.flatMap((change) => this.#rulesOf(change))];
  }

  static async begin(servers: EngineServers, ops: Iterable<Op>, findRules: FindRules): Promise<ServerChanges> {
    const ofServers: ServerOp[] = [];
    const others: Op[] = [];
    for (const op of ops) {
      if ('virtualServer' in op || 'id' in op) ofServers.push(op);
      else others.push(op);
    }
    const units = byVirtualServer(ofServers);
    const found = await findRules(units);
    const changes = units.map((unit): Change => {
      const key = virtualServerKey(unit.id);
      const rules = found.get(key);
      return { ...unit, key, found: rules, ...applyServerOps(servers.get(unit.id) ?? adopted(rules), unit.ops) };
    });
    const served = changes.flatMap(({ after }) => (after === undefined || !isServed(after) ? [] : [after]));
    const refusals = await servers.begin(served, (id) => found.get(virtualServerKey(id))?.endpoints[0]?.port);
    return new ServerChanges(servers, changes, others, refusals);
  }

  /** Ends what the engine has of virtual servers that are gone or have no endpoint, when the rules are written. */
  async end(): Promise<void> {
    const unserved = this.#changes.filter(
      ({ key, after, exists }) => !exists || this.#refusals.has(key) || (after !== undefined && !isServed(after)),
    );
    await this.#servers.end(unserved.map(({ id }) => id));
    for (const { id, after, exists } of unserved) {
      if (exists && after !== undefined) this.#servers.note(after);
      else this.#servers.forget(id);
    }
  }

  /** Returns all failures: one of a virtual server's rules is one of each of its operations. @param ofRules of `ops` */
  failures(ofRules: readonly OpFailure[]): OpFailure[] {
    const reasons = new Map(this.#refusals);
    const failures: OpFailure[] = [];
    for (const { op, errno, code, text } of ofRules) {
      const id = virtualServerOf(op);
      if (id === undefined) failures.push({ op, errno, code, text });
      else reasons.set(virtualServerKey(id), { errno, code, text });
    }
    for (const { key, ops, failures: own, exists, after } of this.#changes) {
      const reason = reasons.get(key) ?? (exists && after === undefined ? UNKNOWN : undefined);
      failures.push(...own);
      if (reason === undefined) continue;
      const failed = new Set(own.map(({ op }) => op));
      failures.push(...ops.filter((op) => !failed.has(op)).map((op) => ({ op, ...reason })));
    }
    return failures;
  }

  #rulesOf({ id, after, exists, found }: Change): readonly ServerOp[] {
    if (!exists) return ruleOps(id, undefined, found);
    if (after === undefined) return [];
    const server = isServed(after) ? this.#servers.get(id) : undefined;
    const target = server && this.#servers.target(server);
    return ruleOps(id, { virtualServer: after.virtualServer, target }, found);
  }
}

/** What another process, or another mode, has left. */
function adopted(found: FoundRules | undefined): KnownServer | undefined {
  if (found === undefined) return undefined;
  const servers = found.endpoints.map(({ address, port }): RealServer => ({ address, port, weight: 0 }));
  return { realServers: new Map(servers.map((server) => [realServerKey(server), server])) };
}

/** A full check sees that its settings differ. */
const UNKNOWN: Refusal = {
  errno: constants.errno.ESRCH,
  code: 'ESRCH',
  text: 'the settings of the virtual server are not known',
};
