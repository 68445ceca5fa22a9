import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { CORE_SCHEMA, loadAll, mergeTag } from 'js-yaml';
import { type ProxyMode, isMode } from '../../src/base/proxy-mode.ts';
import { type Action, parseAction } from './action.ts';
import { type Probe, parseProbe } from './probe.ts';

/** The tables that a step may contain; a table that is absent is not compared. */
export const TABLES = [
  'virtual servers',
  'sets',
  'addresses',
  'local routes',
  'warnings',
  'health checks',
  'no local endpoints',
  'rules',
  'flows left',
  'explain',
] as const;
export type Table = (typeof TABLES)[number];

/** What other programs or packets have changed in the kernel when a step begins: for the kernel in memory only. */
export const GIVENS = ['kernel before', 'connections', 'flows'] as const;
export type Given = (typeof GIVENS)[number];

/** One change of the objects and what must be so afterwards. */
export interface Step {
  /** "" for the first. */
  readonly title: string;
  /** Seconds that pass before anything is compared. */
  readonly afterSeconds: number;
  readonly apply: readonly ManifestDocument[];
  /** "Kind namespace/name" */
  readonly remove: readonly string[];
  readonly tables: ReadonlyMap<Table, readonly string[]>;
  /** Tables that are otherwise in a mode. */
  readonly tablesOfModes: Readonly<Record<ProxyMode, ReadonlyMap<Table, readonly string[]>>>;
  readonly givens: ReadonlyMap<Given, readonly string[]>;
  readonly probes: Probes;
  /** Probes that have another result in a mode: they replace the others. */
  readonly probesOfModes: Readonly<Partial<Record<ProxyMode, Probes>>>;
}

export type Probes = readonly (Probe | Action)[];

export interface Scenario {
  /** Path below cases/, without the ending. */
  readonly name: string;
  /** What it proves: the comment at the top of the file. */
  readonly comment: string;
  readonly flags: readonly string[];
  /** Our own document of the configuration file, as YAML; "" if there is none. */
  readonly ownConfig: string;
  /** Addresses on node-0's uplink beside its own. */
  readonly nodeAddresses: readonly string[];
  readonly steps: readonly Step[];
}

export type ManifestDocument = Readonly<Record<string, unknown>>;

const CASES = path.resolve('test/scenario/cases');
const ENDING = '.txtar';
const HEADING = /^-- (.+) --$/;

/** Every file of cases/, sorted by name. */
export function readScenarios(): Scenario[] {
  return readdirSync(CASES, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ENDING))
    .toSorted()
    .map((file) => parseScenario(file.slice(0, -ENDING.length), readFileSync(path.join(CASES, file), 'utf8')));
}

/** Reads one file; throws an error that names it and the section for whatever cannot be meant. */
export function parseScenario(name: string, text: string): Scenario {
  const [comment = '', ...sections] = sectionsOf(text);
  if (!comment.startsWith('#')) throw new Error(`${name}: begin with a comment that says what is proven`);
  let flags: readonly string[] = [];
  let ownConfig = '';
  let nodeAddresses: readonly string[] = [];
  const steps: MutableStep[] = [];
  for (const section of sections) {
    const [heading = '', ...body] = section.split('\n');
    const title = HEADING.exec(heading)?.[1] ?? '';
    const lines = body.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
    const step = steps.at(-1);
    const start = title === 'objects' ? ['', '0', ''] : /^step(?: after (\d+) s)?: (.+)$/.exec(title);
    const [, table = '', words = ''] = /^(.+) in (.+) mode$/.exec(title) ?? [];
    const modes = words.split(' and ').filter(isMode);
    if (title === 'flags') flags = lines;
    else if (title === 'own configuration') ownConfig = body.join('\n');
    else if (title === 'node addresses') nodeAddresses = lines;
    else if (start !== null) {
      const [, seconds = '0', stepTitle = ''] = start;
      steps.push(stepOf(name, stepTitle, Number(seconds), body.join('\n')));
    } else if (step === undefined) throw new Error(`${name}: "${title}" before any objects`);
    else if (title === 'probes') step.probes = probesOf(name, lines);
    else if (table === 'probes' && modes.length > 0)
      for (const mode of modes) step.probesOfModes[mode] = probesOf(name, lines);
    else if (isGiven(title)) step.givens.set(title, lines);
    else if (isTable(title)) step.tables.set(title, lines);
    else if (isTable(table) && modes.length > 0) for (const mode of modes) step.tablesOfModes[mode].set(table, lines);
    else throw new Error(`${name}: no such section: ${title}`);
  }
  if (steps.length === 0) throw new Error(`${name}: no objects`);
  return { name, comment: comment.replace(/^# ?/gm, '').trim(), flags, ownConfig, nodeAddresses, steps };
}

function probesOf(name: string, lines: readonly string[]): Probes {
  return lines.map((line) => parseAction(line) ?? parseProbe(name, line));
}

interface MutableStep extends Step {
  readonly tables: Map<Table, readonly string[]>;
  readonly tablesOfModes: Readonly<Record<ProxyMode, Map<Table, readonly string[]>>>;
  readonly givens: Map<Given, readonly string[]>;
  readonly probesOfModes: Partial<Record<ProxyMode, Probes>>;
  probes: Probes;
}

function stepOf(name: string, title: string, afterSeconds: number, yaml: string): MutableStep {
  const apply: ManifestDocument[] = [];
  const remove: string[] = [];
  const documents = loadAll(yaml, { schema: CORE_SCHEMA.withTags(mergeTag), filename: name });
  for (const value of documents as (ManifestDocument | null)[]) {
    if (value === null) continue;
    if (typeof value['delete'] === 'string') remove.push(value['delete']);
    else apply.push(value);
  }
  const tablesOfModes = { ipvs: new Map(), nftables: new Map(), iptables: new Map(), userspace: new Map() };
  return {
    title,
    afterSeconds,
    apply,
    remove,
    tables: new Map(),
    tablesOfModes,
    givens: new Map(),
    probes: [],
    probesOfModes: {},
  };
}

function sectionsOf(text: string): string[] {
  return text.split(/^(?=-- .+ --$)/m);
}

function isTable(title: string): title is Table {
  return (TABLES as readonly string[]).includes(title);
}

function isGiven(title: string): title is Given {
  return (GIVENS as readonly string[]).includes(title);
}
