import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(400_000));

/** Debian's User-Mode Linux has no nf_tables. */
const MODES: readonly ProxyMode[] =
  process.env['KERNEL_USED'] === 'uml'
    ? ['iptables', 'ipvs', 'iptables']
    : ['nftables', 'iptables', 'ipvs', 'nftables'];
const SERVICES = 40;
const CHANGE_EVERY_MS = 100;

/** Services 10.202.1.0 and up; of each change, some are gone, and others have other endpoints, zones and ports. */
function objects(turn: number): string {
  const node = `apiVersion: v1
kind: Node
metadata: { name: node-0, labels: { topology.kubernetes.io/zone: ${turn % 2 === 0 ? 'a' : 'b'} } }
status: { addresses: [{ type: InternalIP, address: 10.200.0.10 }${turn % 3 === 0 ? ', { type: InternalIP, address: "fd00:200::a" }' : ''}] }
`;
  const services = Array.from({ length: SERVICES }, (_, at) => at).filter(
    (at) => at === 0 || (at * 7 + turn) % 5 !== 0,
  );
  const texts = services.map((at) => {
    const pods = at === 0 ? [10, 11] : [10, 11, 12].filter((pod) => (pod + at + turn) % 3 !== 0);
    const endpoints = pods.map(
      (pod) =>
        `  - { addresses: [10.201.0.${pod}], nodeName: node-0, hints: { forZones: [{ name: ${pod % 2 === 0 ? 'a' : 'b'} }] } }`,
    );
    const affinity = (at + turn) % 4 === 1 ? ', sessionAffinity: ClientIP' : '';
    return `apiVersion: v1
kind: Service
metadata: { name: s${at} }
spec: { clusterIP: 10.202.1.${at}, type: NodePort${affinity}, ports: [{ name: http, port: 80, nodePort: ${31_000 + at} }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: s${at}-1, labels: { kubernetes.io/service-name: s${at} } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints:
${endpoints.join('\n')}
`;
  });
  return [node, ...texts].join('---\n');
}

describe('a node whose mode changes while its Services change', () => {
  let bed: Bed;
  let node: Namespace;
  let folder: string;
  let daemon: LongProcess | undefined;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'churning-'));
    await apply(0);
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
    node = bed.node(0);
    for (const pod of [0, 1, 2]) await bed.pod(0, pod).serveTcp(8080);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  async function apply(turn: number): Promise<void> {
    await writeFile(path.join(folder, '.next'), objects(turn));
    await rename(path.join(folder, '.next'), path.join(folder, 'all.yaml'));
  }

  async function start(mode: ProxyMode, ...more: readonly string[]): Promise<void> {
    await daemon?.stop(10_000);
    daemon = await startDaemon(node, [
      `--proxy-mode=${mode}`,
      `--manifests=${folder}`,
      '--cluster-cidr=10.201.0.0/16',
      '--ipvs-min-sync-period=0s',
      '--iptables-min-sync-period=0s',
      ...more,
    ]);
  }

  test('a Service that stays answers in each mode, and the last mode has exactly the last Services', async () => {
    await start('ipvs');
    let turn = 0;
    let churning = true;
    const churn = (async () => {
      while (churning) {
        await apply(++turn);
        await sleep(CHANGE_EVERY_MS);
      }
    })();
    const failed: string[] = [];
    let asking = true;
    const asks = (async () => {
      while (asking) {
        const probe = await bed.client(0).probeTcp('10.202.1.0', 80, { timeoutMs: 2_000 });
        if (!probe.ok) failed.push(`turn ${turn}: ${JSON.stringify(probe)}`);
        await sleep(50);
      }
    })();
    for (const mode of MODES) {
      await start(mode);
      await sleep(patient(3_000));
    }
    churning = false;
    await churn;
    await sleep(patient(2_000));
    asking = false;
    await asks;
    expect(turn).toBeGreaterThan(20);
    expect(failed).toEqual([]);
    const last = MODES.at(-1) ?? 'ipvs';
    await start(last);
    expect(daemon?.output).toMatch(/initial sync complete.* operations=0 failures=0/);
    expect(daemon?.output).not.toMatch(/deleted leftovers/);
  });
});
