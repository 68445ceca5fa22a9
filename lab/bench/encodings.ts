// What JSON and protobuf cost a node, side by side: node lab/bench/encodings.ts. Each part is a process of its own.
import { spawnSync } from 'node:child_process';
import { createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listReader } from '../../src/kube/api/list-reader.ts';
import { ENDPOINT_SLICES } from '../../src/kube/api/resource.ts';
import { watchReader } from '../../src/kube/api/watch-reader.ts';
import { Interner } from '../../src/kube/objects/interner.ts';
import type { EndpointSlice } from '../../src/kube/objects/objects.ts';
import type { JsonObject } from '../../test/apiserver/json-object.ts';
import { encodeFrame, encodeObject } from '../../test/apiserver/protobuf/encode-object.ts';
import { type ClusterShape, scaledSlice, sliceObjects } from './large-cluster.ts';

const TYPES = { json: 'application/json', protobuf: 'application/vnd.kubernetes.protobuf' } as const;
type Encoding = keyof typeof TYPES;
const ENCODINGS = ['json', 'protobuf'] as const;

const SHAPE: ClusterShape = { services: 20_000, endpoints: 10, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };
const LIMIT = 32 * 1024 * 1024;
const EVENTS = 3_000;
const ROUNDS = 5;

/** What the EndpointSlice controller adds in a cluster with zones, and the API server to every object. */
function asStored(slice: JsonObject): JsonObject {
  const uid = (n: number): string => `${n.toString(16).padStart(8, '0')}-5c8e-4f6e-9b4f-0e0c7f4b8a11`;
  const endpoints = slice['endpoints'] as readonly Readonly<Record<string, unknown>>[];
  return {
    ...slice,
    metadata: {
      ...slice.metadata,
      uid: uid(0),
      resourceVersion: '123456',
      creationTimestamp: '2026-01-02T03:04:05Z',
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-02T03:04:05Z' },
    },
    endpoints: endpoints.map((endpoint, at) => ({
      ...endpoint,
      targetRef: { ...(endpoint['targetRef'] as object), uid: uid(at) },
      zone: `zone-${at % 3}`,
      hints: { forZones: [{ name: `zone-${at % 3}` }] },
    })),
  };
}

function eventOf(slice: JsonObject): Readonly<Record<Encoding, Buffer>> {
  return {
    json: Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object: slice })}\n`),
    protobuf: encodeFrame('MODIFIED', slice),
  };
}

/** Returns the microseconds of CPU of one event. */
function eventCost(encoding: Encoding): number {
  const bytes = eventOf(asStored(scaledSlice(0, SHAPE, 100)))[encoding];
  const reader = watchReader(TYPES[encoding], ENDPOINT_SLICES, new Interner(), LIMIT);
  const read = (count: number): void => {
    for (let left = count; left > 0; left--) {
      for (const { type } of reader.feed(bytes)) if (type !== 'applied') throw new Error(`the event is ${type}`);
    }
  };
  read(EVENTS / 10);
  const before = process.cpuUsage();
  read(EVENTS);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / EVENTS;
}

interface ListCost {
  readonly peakMiB: number;
  readonly cpuMs: number;
}

async function listCost(encoding: Encoding, file: string): Promise<ListCost> {
  const before = process.cpuUsage();
  const kept: EndpointSlice[] = [];
  const reader = listReader(TYPES[encoding], ENDPOINT_SLICES, new Interner(), LIMIT, ({ object }) => {
    if (object !== undefined) kept.push(object);
  });
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) reader.feed(chunk);
  if (typeof reader.end() === 'string' || kept.length !== SHAPE.services) throw new Error('the list was not read');
  const { user, system } = process.cpuUsage(before);
  // Not maxRSS, which is at least that of the process that started this one.
  const peakKiB = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return { peakMiB: Number(peakKiB) / 1024, cpuMs: (user + system) / 1000 };
}

function writeLists(directory: string): Readonly<Record<Encoding, string>> {
  const items = Array.from(sliceObjects(SHAPE), (slice) => {
    const { kind: _kind, apiVersion: _version, ...item } = asStored(slice);
    return item;
  });
  const list = {
    kind: 'EndpointSliceList',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: { resourceVersion: '7' },
    items,
  };
  const files = { json: join(directory, 'list.json'), protobuf: join(directory, 'list.pb') };
  writeFileSync(files.json, JSON.stringify(list));
  writeFileSync(files.protobuf, encodeObject(list));
  return files;
}

function inProcess<T>(...argv: readonly string[]): T {
  const flags = ['--max-semi-space-size=2', '--disable-warning=ExperimentalWarning'];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...flags, import.meta.filename, ...argv]);
  if (status !== 0) throw new Error(String(stderr));
  return JSON.parse(String(stdout)) as T;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

function report(name: string, values: Readonly<Record<Encoding, readonly number[]>>): void {
  const json = median(values.json);
  const protobuf = median(values.protobuf);
  const numbers = [json, protobuf, protobuf / json].map((value, at) => value.toFixed(at === 2 ? 3 : 0));
  process.stdout.write(`| ${name} | ${numbers.join(' | ')} |\n`);
}

function compare(): void {
  const directory = mkdtempSync(join(tmpdir(), 'encodings-'));
  try {
    const events = eventOf(asStored(scaledSlice(0, SHAPE, 100)));
    report('bytes of an event', { json: [events.json.length], protobuf: [events.protobuf.length] });
    const files = writeLists(directory);
    const costs = { json: [] as number[], protobuf: [] as number[] };
    const lists = { json: [] as ListCost[], protobuf: [] as ListCost[] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const encoding of ENCODINGS) {
        costs[encoding].push(inProcess<number>('event', encoding));
        lists[encoding].push(inProcess<ListCost>('list', encoding, files[encoding]));
      }
    }
    report('CPU of an event, microseconds', costs);
    for (const [name, key] of [
      ['peak RSS of a list, MiB', 'peakMiB'],
      ['CPU of a list, ms', 'cpuMs'],
    ] as const) {
      report(name, { json: lists.json.map((cost) => cost[key]), protobuf: lists.protobuf.map((cost) => cost[key]) });
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const [part, encoding, file = ''] = process.argv.slice(2);
if (part === undefined) compare();
else {
  const of: Encoding = encoding === 'json' ? 'json' : 'protobuf';
  process.stdout.write(JSON.stringify(part === 'event' ? eventCost(of) : await listCost(of, file)));
}
