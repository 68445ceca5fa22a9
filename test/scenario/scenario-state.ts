import { dump } from 'js-yaml';
import type { ManifestDocument, Step } from './scenario-file.ts';

/** Our node as every scenario has it, unless it brings its own. */
const NODE: ManifestDocument = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-0', labels: { 'topology.kubernetes.io/zone': 'zone-a' } },
  spec: { podCIDRs: ['10.201.0.0/24', 'fd00:201::/64'] },
  status: {
    addresses: [
      { type: 'InternalIP', address: '10.200.0.10' },
      { type: 'InternalIP', address: 'fd00:200::10' },
    ],
  },
};

/** The addresses of node-0's interfaces on the test bed, but loopback. */
export const NODE_ADDRESSES = { 4: ['10.200.0.10', '10.201.0.1'], 6: ['fd00:200::10', 'fd00:201::1'] } as const;

/** The objects that exist after a step, by "Kind namespace/name". */
export class ScenarioState {
  readonly #documents = new Map<string, ManifestDocument>([[keyOf(NODE), NODE]]);

  take(step: Step): void {
    for (const document of step.apply) this.#documents.set(keyOf(document), document);
    for (const key of step.remove) {
      if (!this.#documents.delete(key)) throw new Error(`nothing to delete: ${key}`);
    }
  }

  /** As one file of manifests. */
  yaml(): string {
    return Array.from(this.#documents.values(), (document) => dump(document)).join('---\n');
  }
}

function keyOf(document: ManifestDocument): string {
  const kind = String(document['kind']);
  const { namespace = 'default', name = '' } = (document['metadata'] ?? {}) as { namespace?: string; name?: string };
  return `${kind} ${kind === 'Node' ? '' : namespace}/${name}`;
}
