import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';

jest.setTimeout(patient(240_000));

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');
const [VIP4, VIP6] = ['10.202.0.10', 'fd00:202::a'];
/** IPVS takes requests that are delivered to this node, so that only replies are forwarded. */
const DELIVERED = TEST_MODE === 'ipvs';

/** A setting, who gets no answer while it is 0, and what the notes say of it; undefined: nothing, as it stops no packet. */
const SETTINGS: readonly (readonly [key: string, lost: readonly string[], note: string | undefined])[] = [
  ['net.ipv4.conf.eth0.forwarding', DELIVERED ? [] : [`client ${VIP4}`], 'forwarding is 0 for eth0'],
  ['net.ipv4.conf.cni0.forwarding', [`client ${VIP4}`, `pod ${VIP4}`], 'forwarding is 0 for cni0'],
  ['net.ipv4.conf.veth0.forwarding', [], undefined],
  ['net.ipv6.conf.all.forwarding', [`client ${VIP6}`], 'net.ipv6.conf.all.forwarding is 0'],
  ['net.ipv6.conf.eth0.forwarding', [], undefined],
];

describe('a node on which forwarding is off in part', () => {
  let bed: Bed;
  let node: Namespace;
  let daemon: LongProcess;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    await bed.pod(0, 0).serveTcp(8080);
    await bed.pod(0, 1).serveTcp(8080);
    daemon = await startDaemon(node, [
      '--manifests=manifests/demo',
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      '--ipvs-sync-period=2s',
      '--iptables-sync-period=2s',
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });

  async function unanswered(): Promise<string[]> {
    const clients = [
      ['client', bed.client(0)],
      ['pod', bed.pod(0, 1)],
      ['node', node],
    ] as const;
    const lost: string[] = [];
    for (const [name, from] of clients) {
      for (const address of [VIP4, VIP6]) {
        // A Pod reaches itself without the node's forwarding.
        const probes = [];
        for (let at = 0; at < 4; at++) probes.push(await from.probeTcp(address, 80, { timeoutMs: patient(500) }));
        if (probes.some(({ ok }) => !ok)) lost.push(`${name} ${address}`);
      }
    }
    return lost;
  }

  async function ask(...argv: readonly string[]): Promise<{ readonly status: number; readonly text: string }> {
    const asked = [process.execPath, BUNDLE, ...argv, `--query-socket=${querySocketOf(node)}`];
    const { status, stdout } = await node.exec(asked, { allowFailure: true });
    return { status, text: stdout.replaceAll(/\s+/g, ' ') };
  }

  test.each(SETTINGS)('%s is named if it stops packets, and never changed', async (key, lost, note) => {
    expect(await unanswered()).toEqual([]);
    await node.exec(['sysctl', '-qw', `${key}=0`]);
    try {
      expect(await unanswered()).toEqual(lost);
      const questions = [['status'], ['explain', 'web'], ...(TEST_MODE === 'ipvs' ? [['diff']] : [])];
      for (const question of questions) {
        const { status, text } = await ask(...question);
        expect([question, status, text.includes(note ?? 'forwarding is 0')]).toEqual([question, 0, note !== undefined]);
      }
      if (note !== undefined) await daemon.waitForOutput(new RegExp(`W.*${note}`), patient(20_000));
      await sleep(patient(3_000));
      expect((await node.exec(['sysctl', '-n', key])).stdout.trim()).toBe('0');
    } finally {
      await node.exec(['sysctl', '-qw', `${key}=1`]);
    }
  });
});
