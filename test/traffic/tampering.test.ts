import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';

jest.setTimeout(patient(240_000));

const VIPS = ['10.202.0.10', 'fd00:202::a'];
const LOOP_MS = 20_000;
/** Of every line that one statement writes, 30 are written at once, and then six a minute. */
const MOST_LINES = 300;

const IN_TABLES = `nft delete table ip kube-proxy
    nft flush table ip6 kube-proxy
    sysctl -qw net.ipv4.ip_forward=0`;

/** What another program does again and again. */
const DELETES: Readonly<Record<ProxyMode, string>> = {
  ipvs: `ip link del kube-ipvs0
    ipvsadm -D -t 10.202.0.10:80
    ipset del KUBE-CLUSTER-IP 10.202.0.10,tcp:80
    iptables -t nat -F KUBE-SERVICES
    sysctl -qw net.ipv4.vs.conntrack=0`,
  nftables: IN_TABLES,
  userspace: IN_TABLES,
  iptables: `iptables -t nat -F KUBE-SERVICES
    iptables -t nat -D PREROUTING 1
    sysctl -qw net.ipv4.ip_forward=0`,
};

/** In place of each program that restores rules: ends amid its input, by SIGKILL, two times of three. */
const KILLED_RESTORE = `#!/bin/sh
count=$(cat "$0.count" 2>/dev/null || echo 0)
echo $((count + 1)) >"$0.count"
case $((count % 3)) in
  0) PATH=\${PATH#*:} sh -c 'head -n 5 | timeout -s KILL 5 "$@" >&2; kill -KILL $$' sh "\${0##*/}" "$@" ;;
  1) PATH=\${PATH#*:} sh -c 'sed /COMMIT/q | timeout -s KILL 5 "$@" >&2; kill -KILL $$' sh "\${0##*/}" "$@" ;;
  *) PATH=\${PATH#*:} exec "\${0##*/}" "$@" ;;
esac
`;
const RESTORES = ['', '-legacy', '-nft'].flatMap((variant) =>
  ['iptables', 'ip6tables'].map((program) => `${program}${variant}-restore`),
);

describe('a node with which another program tampers', () => {
  let bed: Bed;
  let node: Namespace;
  let daemon: LongProcess | undefined;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tampering-'));
    for (const program of RESTORES) {
      await writeFile(path.join(folder, program), KILLED_RESTORE);
      await chmod(path.join(folder, program), 0o755);
    }
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const pod of [0, 1]) await bed.pod(0, pod).serveTcp(8080);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const flags = [
    '--manifests=manifests/demo',
    '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
    '--ipvs-min-sync-period=0s',
    '--ipvs-sync-period=2s',
    '--iptables-sync-period=2s',
  ];

  async function untilServed(withinMs: number): Promise<void> {
    const deadline = performance.now() + patient(withinMs);
    for (;;) {
      const probes = await Promise.all(VIPS.map((vip) => bed.client(0).probeTcp(vip, 80, { timeoutMs: 500 })));
      if (probes.every(({ ok }) => ok)) return;
      if (performance.now() > deadline) throw new Error(`not served; output:\n${daemon?.output.slice(-4_000)}`);
      await sleep(200);
    }
  }

  const linesOf = (text: string): number => text.split('\n').length;

  test('objects that are deleted in a loop come back when it ends, and the log is short', async () => {
    daemon = await startDaemon(node, flags);
    await untilServed(10_000);
    const before = daemon.output.length;
    const script = `end=$(($(date +%s) + ${LOOP_MS / 1_000})); while [ $(date +%s) -lt $end ]; do ${DELETES[TEST_MODE]}\n done 2>/dev/null; true`;
    await node.exec(['sh', '-c', script], { timeoutMs: patient(LOOP_MS * 3) });
    await untilServed(30_000);
    const lines = linesOf(daemon.output.slice(before));
    expect(lines).toBeLessThan(MOST_LINES);
    await daemon.stop(10_000);
  });

  test('an iptables-restore that is killed amid its input is repeated until all rules are in force', async () => {
    if (TEST_MODE === 'nftables') return;
    const flushed =
      'for t in nat filter mangle; do for p in iptables ip6tables; do $p -t $t -F; $p -t $t -X; done; done';
    await node.exec(['sh', '-c', `${flushed}; true`]);
    daemon = await node.spawn(daemonArgv(node, flags), { ...process.env, PATH: `${folder}:${process.env['PATH']}` });
    await daemon.waitForOutput(/initial sync complete/, patient(60_000));
    await untilServed(30_000);
    const rules = async () => (await node.exec(['sh', '-c', 'iptables-save; ip6tables-save'])).stdout;
    await node.exec(['sh', '-c', 'iptables -t nat -F KUBE-SERVICES; ip6tables -t nat -F KUBE-SERVICES']);
    await sleep(patient(12_000));
    await untilServed(10_000);
    const repaired = await rules();
    expect(repaired.match(/^-A KUBE-SERVICES/gm)?.length).toBeGreaterThan(2);
    expect(daemon.output).toMatch(/restore failed with status 137: .*Killed/);
    expect(linesOf(daemon.output)).toBeLessThan(MOST_LINES);
    await daemon.stop(10_000);
  });
});
