import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon, querySocketOf } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import path from 'node:path';

jest.setTimeout(patient(240_000));
const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');

describe('forwarding', () => {
  let bed: Bed;
  let node: Namespace;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const pod of [0, 1]) await bed.pod(0, pod).serveTcp(8080);
    await startDaemon(node, [
      '--manifests=manifests/demo',
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      '--ipvs-sync-period=2s',
    ]);
  });
  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });
  const probes = async () => {
    const out: Record<string, boolean> = {};
    for (const [who, from] of [
      ['client', bed.client(0)],
      ['pod', bed.pod(0, 1)],
      ['node', node],
    ] as const)
      for (const [vip, port] of [
        ['10.202.0.10', 80],
        ['fd00:202::a', 80],
        ['10.200.0.10', 30080],
        ['10.203.0.10', 80],
      ] as const) {
        let ok = 0;
        for (let i = 0; i < 4; i++) ok += (await from.probeTcp(vip, port, { timeoutMs: 700 })).ok ? 1 : 0;
        out[`${who} ${vip}`] = ok === 4;
      }
    return JSON.stringify(out);
  };
  test('facts', async () => {
    const say = (t: string) => process.stderr.write(`${TEST_MODE} ${t}\n`);
    say(`base ${await probes()}`);
    for (const key of [
      'net.ipv4.conf.eth0.forwarding',
      'net.ipv4.conf.cni0.forwarding',
      'net.ipv4.conf.veth0.forwarding',
      'net.ipv6.conf.all.forwarding',
      'net.ipv6.conf.eth0.forwarding',
    ]) {
      await node.exec(['sysctl', '-qw', `${key}=0`]);
      say(`${key}=0 ${await probes()}`);
      say(
        (
          await node.exec([process.execPath, BUNDLE, 'status', `--query-socket=${querySocketOf(node)}`], {
            allowFailure: true,
          })
        ).stdout
          .split('\n')
          .slice(-6)
          .join(' | '),
      );
      await node.exec(['sysctl', '-qw', `${key}=1`]);
    }
    expect(1).toBe(1);
  });
});
