import { constants } from 'node:os';
import type { MessageWriter } from '../netlink/codec/message-writer.ts';
import { destroySet, swapSets } from '../netlink/family/ipset/command.ts';
import { createSet, decodeTypeRevisions, getHeader, getType } from '../netlink/family/ipset/definition.ts';
import { type IpsetListing, dumpSets, setReader } from '../netlink/family/ipset/listing.ts';
import { chooseProtocol, getProtocol } from '../netlink/family/ipset/protocol.ts';
import type { IpFamily } from '../net/ip.ts';
import type { IpSet, IpSetType } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import type { ObservedIpSet } from './kernel.ts';
import { type Refusal, refusalsOf } from './netlink-failure.ts';
import { type EntryChange, changeEntries } from './set-entries.ts';
import { observedEntry } from './set-entry.ts';
import { runs } from './slices.ts';

/** Operations on sets and their entries. */
export type SetOp = Extract<Op, { kind: 'create-set' | 'grow-set' | 'destroy-set' | 'add-entry' | 'delete-entry' }>;
type GrowSet = Extract<SetOp, { kind: 'grow-set' }>;
type EntryOp = Extract<SetOp, { kind: 'add-entry' | 'delete-entry' }>;

const { ENOENT } = constants.errno;
const OURS = 'KUBE-';
/** A set that grows has a twin of this name while it does; no longer than its own, and never taken for one of ours. */
const TWIN = 'KUBE~';
/** net/netfilter/ipset/ip_set_hash_gen.h: IPSET_DEFAULT_HASHSIZE. */
const DEFAULT_HASH_SIZE = 1024;
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

  /** Removes the twins that a crash has left. */
  async prepare(): Promise<void> {
    const twins = (await this.#list({ headersOnly: true })).filter(({ name }) => name.startsWith(TWIN));
    const protocol = await this.#chosenProtocol();
    await this.#run(twins, (writer, { name }) => destroySet(writer, protocol, name));
  }

  async getSets(): Promise<ObservedIpSet[]> {
    // Other people's sets may be huge: only their names are asked for.
    const names = (await this.#list({ headersOnly: true })).map(({ name }) => name);
    const ours = names.filter((name) => name.startsWith(OURS));
    const reader = setReader();
    const protocol = await this.#chosenProtocol();
    await askAll(this.#connection, ours, {
      operation: 'IPSET_CMD_LIST',
      write: (writer, name) => dumpSets(writer, protocol, { name }),
      read: ({ payload }) => reader.read(payload),
      absent: new Set([ENOENT]),
    });
    return reader.sets.map(observedSet);
  }

  /** In the order given, but for entries of different sets; what already is as it should be counts as done. */
  async apply(ops: readonly SetOp[]): Promise<OpFailure[]> {
    const failures: OpFailure[] = [];
    const groups = [...runs(ops, ({ kind }) => kind)];
    const planned = plannedEntries(groups);
    for (const group of groups) {
      for (const failure of await this.#applyRun(group, planned)) failures.push(failure);
    }
    return failures;
  }

  /** Operations of one kind. */
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
    return refused.map(({ source, errno, code, text }) => ({ op: source, errno, code, text }));
  }

  /** `planned`: how many entries a set that is made will have at once, by its name. */
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
    const destroyed = await this.#run(destructions, (writer, { set }) => destroySet(writer, protocol, set.name));
    return [
      ...creations.flatMap((op) => unknown.get(op.set.type)?.map((refusal) => failureOf(op, refusal)) ?? []),
      ...created.map((refusal) => failureOf(refusal.item, refusal)),
      ...destroyed.filter(({ errno }) => errno !== ENOENT).map((refusal) => failureOf(refusal.item, refusal)),
    ];
  }

  async #grow(op: GrowSet): Promise<OpFailure[]> {
    const { set, entries } = op;
    const protocol = await this.#chosenProtocol();
    const [missing] = await this.#run([set], (writer) => getHeader(writer, protocol, set.name), ignore);
    if (missing !== undefined) return [failureOf(op, missing)];
    const twin = { ...set, name: twinName(set.name) };
    const destroyTwin = async (): Promise<Refusal<IpSet>[]> =>
      await this.#run([twin], (writer) => destroySet(writer, protocol, twin.name));
    // One that a crash has left may have other properties.
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
    // Whichever of the two now has this name is the one to go.
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

  /** Answers the types that the kernel does not have, with its refusal. */
  async #learnRevisions(sets: readonly IpSet[]): Promise<Map<IpSetType, Refusal<unknown>[]>> {
    const unknown = new Map<IpSetType, Refusal<unknown>[]>();
    const protocol = await this.#chosenProtocol();
    for (const { type, family } of sets) {
      if (this.#revisions.has(type) || unknown.has(type)) continue;
      try {
        await askAll(this.#connection, [type], {
          operation: 'IPSET_CMD_TYPE',
          write: (writer) => getType(writer, protocol, type, type === 'bitmap:port' ? undefined : family),
          read: ({ payload }) => this.#revisions.set(type, decodeTypeRevisions(payload).newest),
        });
      } catch (error) {
        unknown.set(type, refusalsOf([type], error));
      }
    }
    return unknown;
  }

  async #list(options: { readonly headersOnly: boolean }): Promise<readonly IpsetListing[]> {
    const protocol = await this.#chosenProtocol();
    const reader = setReader();
    await askAll(this.#connection, [undefined], {
      operation: 'IPSET_CMD_LIST',
      write: (writer) => dumpSets(writer, protocol, options),
      read: ({ payload }) => reader.read(payload),
    });
    return reader.sets;
  }

  async #chosenProtocol(): Promise<number> {
    if (this.#protocol !== undefined) return this.#protocol;
    let protocol = 0;
    await askAll(this.#connection, [undefined], {
      operation: 'IPSET_CMD_PROTOCOL',
      write: getProtocol,
      read: ({ payload }) => {
        protocol = chooseProtocol(payload);
      },
    });
    this.#protocol = protocol;
    return protocol;
  }

  async #run<T>(
    items: readonly T[],
    write: (writer: MessageWriter, item: T) => unknown,
    onWrite: (messages: number) => void = this.#onWrite,
  ): Promise<Refusal<T>[]> {
    return await runBatch(this.#connection, items, write, onWrite);
  }
}

const ignore = (): void => undefined;

/**
 * Buckets for so many entries: four in a bucket. One that starts too small is doubled again and again while entries are added: 50,000
 * take seven times as long from 1,024 buckets on as from 16,384; below 10,000 it makes no difference (docs/profiles-netlink.md).
 */
function hashSize(entries: number): number {
  let size = DEFAULT_HASH_SIZE;
  while (size * 4 < entries) size *= 2;
  return size;
}

/** Entries that are added to each set that is made; empty where none is. */
function plannedEntries(groups: readonly (readonly SetOp[])[]): ReadonlyMap<string, number> {
  const planned = new Map<string, number>();
  if (!groups.some(([first]) => first?.kind === 'create-set')) return planned;
  for (const group of groups) {
    if (group[0]?.kind !== 'add-entry') continue;
    for (const { set } of group) planned.set(set.name, (planned.get(set.name) ?? 0) + 1);
  }
  return planned;
}

function twinName(name: string): string {
  return TWIN + (name.startsWith(OURS) ? name.slice(OURS.length) : name.slice(0, 31 - TWIN.length));
}

function failureOf(op: SetOp, { errno, code, text }: Pick<OpFailure, 'errno' | 'code' | 'text'>): OpFailure {
  return { op, errno, code, text };
}

function observedSet({ name, type, family, maxEntries, entries }: IpsetListing): ObservedIpSet {
  // A type of others stays what it is: it differs from every type that we want, and its entries are left out.
  const ourType = type as IpSetType;
  return {
    name,
    type: ourType,
    family: family ?? familyByName(name),
    maxEntries: maxEntries ?? BITMAP_ENTRIES,
    entries: entries.flatMap((entry) => observedEntry(ourType, entry) ?? []),
  };
}

/** A bitmap of ports has no family; its name says whom it serves. */
function familyByName(name: string): IpFamily {
  return name.startsWith('KUBE-6-') ? 6 : 4;
}
