import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageWriter } from '../../netlink/codec/message-writer.ts';
import { type IpsetListing, type SetListOptions, dumpSets, setReader } from '../../netlink/family/ipset/listing.ts';
import { swapSets } from '../../netlink/family/ipset/message.ts';
import {
  chooseProtocol,
  getProtocol,
  createSet,
  decodeRevision,
  destroySet,
  getType,
} from '../../netlink/family/ipset/set.ts';
import type { IpFamily } from '../../base/ip.ts';
import { type IpSet, type IpSetType, TWIN_PREFIX, twinName } from '../../state/ip-set.ts';
import type { EntryOp, Op } from '../../state/op.ts';
import { type OpFailure, failureOf } from '../../state/outcome.ts';
import { type BatchConnection, askAll, runBatch } from '../linux/batch.ts';
import type { ObservedIpSet } from '../kernel.ts';
import { type RefusedItem, refusalsOf } from '../linux/netlink-failure.ts';
import { type EntryChange, changeEntries } from './change-entries.ts';
import { observedEntry } from './set-entry.ts';

export type SetOp = Extract<Op, { kind: 'create-set' | 'grow-set' | 'destroy-set' | 'add-entry' | 'delete-entry' }>;
type GrowSet = Extract<SetOp, { kind: 'grow-set' }>;

const { ENOENT } = constants.errno;
const OURS = 'KUBE-';
/** net/netfilter/ipset/ip_set_hash_gen.h: IPSET_DEFAULT_HASHSIZE. */
const DEFAULT_HASH_SIZE = 1024;
const BUSY = 'IPSET_ERR_BUSY';
const DESTROY_ATTEMPTS = 5;
const DESTROY_PAUSE_MS = 40;
const BITMAP_ENTRIES = 65_536;
const LAST_PORT = 65_535;

/** The sets of one network namespace. */
export class IpsetHandle {
  readonly #connection: BatchConnection;
  readonly #onWrite: (messages: number) => void;
  readonly #revisions = new Map<IpSetType, number>();
  #protocol: number | undefined;

  constructor(connection: BatchConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  /** Removes temporary sets that a crash left behind. */
  async prepare(): Promise<void> {
    const twins = (await this.#list([{ headersOnly: true }])).filter(({ name }) => name.startsWith(TWIN_PREFIX));
    const protocol = await this.#chosenProtocol();
    await this.#run(twins, (writer, { name }) => destroySet(writer, protocol, name));
  }

  /** Returns the sets with these names or, without `names`, all of ours. Those that do not exist are absent. */
  async getSets(names?: readonly string[]): Promise<ObservedIpSet[]> {
    const wanted = names ?? (await this.#ours());
    return (await this.#list(wanted.map((name) => ({ name })))).map(observedSet);
  }

  /** Sets of other programs may be huge: only their headers are read. */
  async #ours(): Promise<readonly string[]> {
    const names = (await this.#list([{ headersOnly: true }])).map(({ name }) => name);
    return names.filter((name) => name.startsWith(OURS) || name.startsWith(TWIN_PREFIX));
  }

  /** Returns the sets without entries; those that do not exist are absent. */
  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    const listings = await this.#list(names.map((name) => ({ name, headersOnly: true })));
    return new Map(
      listings.map((listing) => {
        const { entries: _none, ...set } = observedSet(listing);
        return [set.name, set];
      }),
    );
  }

  /** Applies the operations kind by kind, in the order of first occurrence. A state already reached counts as done. */
  async apply(ops: readonly SetOp[]): Promise<OpFailure[]> {
    const failures: OpFailure[] = [];
    const byKind = Map.groupBy(ops, ({ kind }) => kind);
    const planned = byKind.has('create-set')
      ? plannedEntries(byKind.get('add-entry') as EntryOp[] | undefined)
      : new Map();
    for (const group of byKind.values()) {
      for (const failure of await this.#applyRun(group, planned)) failures.push(failure);
    }
    return failures;
  }

  async #applyRun(ops: readonly SetOp[], planned: ReadonlyMap<string, number>): Promise<OpFailure[]> {
    const kind = ops[0]?.kind;
    if (kind === 'add-entry') return await this.#changeEntries('add', ops as readonly EntryOp[]);
    if (kind === 'delete-entry') return await this.#changeEntries('delete', ops as readonly EntryOp[]);
    if (kind !== 'grow-set') return await this.#changeSets(ops, planned);
    const failures: OpFailure[] = [];
    for (const op of ops as readonly GrowSet[]) failures.push(...(await this.#grow(op)));
    return failures;
  }

  async #changeEntries(verb: 'add' | 'delete', ops: readonly EntryOp[]): Promise<OpFailure[]> {
    const protocol = await this.#chosenProtocol();
    const refused = await changeEntries(this.#connection, protocol, verb, ops, this.#onWrite);
    return refused.map((refusal) => failureOf(refusal.item, refusal));
  }

  /** `planned`: entries that will be added at once to each new set, by its name. */
  async #changeSets(ops: readonly SetOp[], planned: ReadonlyMap<string, number>): Promise<OpFailure[]> {
    const creations = ops.filter((op) => op.kind === 'create-set');
    const destructions = ops.filter((op) => op.kind === 'destroy-set');
    if (creations.length + destructions.length === 0) return [];
    const protocol = await this.#chosenProtocol();
    const unknown = await this.#learnRevisions(creations.map(({ set }) => set));
    const known = creations.filter(({ set }) => !unknown.has(set.type));
    const created = await this.#run(known, (writer, { set }) =>
      this.#write(writer, protocol, set, planned.get(set.name) ?? 0),
    );
    const destroyed = await this.#destroy(destructions);
    return [
      ...creations.flatMap((op) => unknown.get(op.set.type)?.map((refusal) => failureOf(op, refusal)) ?? []),
      ...created.map((refusal) => failureOf(refusal.item, refusal)),
      ...destroyed.filter(({ errno }) => errno !== ENOENT).map((refusal) => failureOf(refusal.item, refusal)),
    ];
  }

  /** Retries busy sets: nf_tables releases a set some milliseconds after the rule that referred to it was removed. */
  async #destroy<T extends { readonly set: IpSet }>(items: readonly T[]): Promise<RefusedItem<T>[]> {
    const protocol = await this.#chosenProtocol();
    const refused: RefusedItem<T>[] = [];
    let open = items;
    for (let attempt = 1; open.length > 0; attempt++) {
      const failed = await this.#run(open, (writer, { set }) => destroySet(writer, protocol, set.name));
      const last = attempt === DESTROY_ATTEMPTS;
      for (const refusal of failed) if (last || refusal.code !== BUSY) refused.push(refusal);
      open = last ? [] : failed.filter(({ code }) => code === BUSY).map(({ item }) => item);
      if (open.length > 0) await sleep(DESTROY_PAUSE_MS);
    }
    return refused;
  }

  async #grow(op: GrowSet): Promise<OpFailure[]> {
    const { set, entries } = op;
    const protocol = await this.#chosenProtocol();
    if ((await this.#list([{ name: set.name, headersOnly: true }])).length === 0) {
      return [{ op, errno: ENOENT, code: 'ENOENT', text: '' }];
    }
    const twin = { ...set, name: twinName(set.name) };
    const destroyTwin = async (): Promise<RefusedItem<IpSet>[]> =>
      await this.#run([twin], (writer) => destroySet(writer, protocol, twin.name));
    // A twin that a crash left behind may have other properties.
    await destroyTwin();
    const [creation] = await this.#changeSets(
      [{ kind: 'create-set', set: twin }],
      new Map([[twin.name, entries.length]]),
    );
    if (creation !== undefined) return [{ ...creation, op }];
    const changes = entries.map((entry): EntryChange => ({ set: twin, entry }));
    const [refused] = await changeEntries(this.#connection, protocol, 'add', changes, this.#onWrite);
    const [failure = refused] =
      refused === undefined ? await this.#run([set], (writer) => swapSets(writer, protocol, twin.name, set.name)) : [];
    // After a swap, the twin is the old set; after a failure, it is the new one.
    await destroyTwin();
    return failure === undefined ? [] : [failureOf(op, failure)];
  }

  #write(writer: MessageWriter, protocol: number, { name, type, family, maxEntries }: IpSet, entries: number): void {
    const revision = this.#revisions.get(type) ?? 0;
    if (type === 'bitmap:port') {
      createSet(writer, protocol, { name, type, family: undefined, revision, firstPort: 0, lastPort: LAST_PORT });
    } else {
      createSet(writer, protocol, { name, type, family, revision, maxEntries, hashSize: hashSize(entries) });
    }
  }

  /** Asks for the newest revision of each type. Returns the types that the kernel does not have, with its error. */
  async #learnRevisions(sets: readonly IpSet[]): Promise<Map<IpSetType, RefusedItem<unknown>[]>> {
    const unknown = new Map<IpSetType, RefusedItem<unknown>[]>();
    const protocol = await this.#chosenProtocol();
    for (const { type, family } of sets) {
      if (this.#revisions.has(type) || unknown.has(type)) continue;
      try {
        await askAll(this.#connection, [type], {
          operation: 'IPSET_CMD_TYPE',
          write: (writer) => getType(writer, protocol, type, type === 'bitmap:port' ? undefined : family),
          read: ({ payload }) => this.#revisions.set(type, decodeRevision(payload)),
        });
      } catch (error) {
        unknown.set(type, refusalsOf([type], error));
      }
    }
    return unknown;
  }

  /** Lists the requested sets; those that do not exist are absent. */
  async #list(requests: readonly SetListOptions[]): Promise<readonly IpsetListing[]> {
    const protocol = await this.#chosenProtocol();
    const reader = setReader();
    await askAll(this.#connection, requests, {
      operation: 'IPSET_CMD_LIST',
      write: (writer, options) => dumpSets(writer, protocol, options),
      read: ({ payload }) => reader.read(payload),
      absent: new Set([ENOENT]),
    });
    return reader.sets;
  }

  async #chosenProtocol(): Promise<number> {
    if (this.#protocol === undefined) {
      [this.#protocol = 0] = await askAll(this.#connection, [undefined], {
        operation: 'IPSET_CMD_PROTOCOL',
        write: getProtocol,
        read: ({ payload }) => chooseProtocol(payload),
      });
    }
    return this.#protocol;
  }

  async #run<T>(items: readonly T[], write: (writer: MessageWriter, item: T) => unknown): Promise<RefusedItem<T>[]> {
    return await runBatch(this.#connection, items, write, this.#onWrite);
  }
}

/**
 * Returns the number of buckets: one for four entries. A set that starts too small is doubled repeatedly while entries
 * are added: 50,000 entries take seven times as long with 1,024 initial buckets as with 16,384; below 10,000 there is
 * no difference (lab/notes/profiles-netlink.md).
 */
function hashSize(entries: number): number {
  let size = DEFAULT_HASH_SIZE;
  while (size * 4 < entries) size *= 2;
  return size;
}

/** Returns the number of entries to be added to each set, by name. */
function plannedEntries(additions: readonly EntryOp[] = []): ReadonlyMap<string, number> {
  const planned = new Map<string, number>();
  for (const { set } of additions) planned.set(set.name, (planned.get(set.name) ?? 0) + 1);
  return planned;
}

function observedSet({ name, type, family, maxEntries, entries }: IpsetListing): ObservedIpSet {
  // An unknown type is returned unchanged: it differs from every wanted type, and its entries are left out.
  const ourType = type as IpSetType;
  return {
    name,
    type: ourType,
    family: family ?? familyByName(name),
    maxEntries: maxEntries ?? BITMAP_ENTRIES,
    entries: entries.flatMap((entry) => observedEntry(ourType, entry) ?? []),
  };
}

/** Returns the family that the name contains, because the kernel stores none for a bitmap:port set. */
function familyByName(name: string): IpFamily {
  return name.startsWith('KUBE-6-') ? 6 : 4;
}
