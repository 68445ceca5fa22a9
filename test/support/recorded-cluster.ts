import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** What the program in a Pod prints for each subcommand, and what else is known of the Pod. */
export interface RecordedPod {
  readonly replies?: Readonly<Record<string, object | string>>;
  /** Exit statuses by subcommand; 0 if absent. */
  readonly statuses?: Readonly<Record<string, number>>;
  readonly errors?: Readonly<Record<string, string>>;
  /** Seconds that each answer takes. */
  readonly sleep?: number;
  /** The reason why its container waits; absent if it runs. */
  readonly waits?: string;
}

/** Writes the files of test/support/kubectl/kubectl, and puts that program first in PATH until it is disposed of. */
export class RecordedCluster implements Disposable {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'recorded-cluster-'));
  readonly #path = process.env['PATH'] ?? '';

  constructor(pods: ReadonlyMap<string, RecordedPod>, nodes: readonly string[] = [...pods.keys()]) {
    const items = Array.from(pods.entries()).map(([node, { waits }], at) => podObject(node, `192.168.0.${at}`, waits));
    writeFileSync(path.join(this.folder, 'pods.json'), JSON.stringify({ items }));
    writeFileSync(path.join(this.folder, 'nodes'), nodes.map((node) => `node/${node}\n`).join(''));
    for (const [node, pod] of pods) this.#writePod(`proxy-${node}`, pod);
    process.env['PATH'] = `${path.resolve('test/support/kubectl')}:${this.#path}`;
    process.env['RECORDED_CLUSTER'] = this.folder;
  }

  writeService(service: object): void {
    writeFileSync(path.join(this.folder, 'service.json'), JSON.stringify(service));
  }

  #writePod(name: string, { replies = {}, statuses = {}, errors = {}, sleep }: RecordedPod): void {
    const folder = path.join(this.folder, name);
    mkdirSync(folder);
    const write = (file: string, text: string): void => writeFileSync(path.join(folder, file), text);
    for (const [subcommand, reply] of Object.entries(replies))
      write(subcommand, typeof reply === 'string' ? reply : JSON.stringify(reply));
    for (const [subcommand, status] of Object.entries(statuses)) write(`${subcommand}.status`, `${status}\n`);
    for (const [subcommand, text] of Object.entries(errors)) write(`${subcommand}.error`, text);
    if (sleep !== undefined) write('sleep', `${sleep}\n`);
  }

  [Symbol.dispose](): void {
    process.env['PATH'] = this.#path;
    delete process.env['RECORDED_CLUSTER'];
    rmSync(this.folder, { recursive: true });
  }
}

function podObject(node: string, hostIP: string, waits: string | undefined): object {
  const state = waits === undefined ? { running: {} } : { waiting: { reason: waits } };
  return {
    metadata: { name: `proxy-${node}`, creationTimestamp: '2026-11-27T00:00:00Z' },
    spec: { nodeName: node },
    status: { phase: 'Running', hostIP, containerStatuses: [{ name: 'kube-ipvs-proxy', state }] },
  };
}
