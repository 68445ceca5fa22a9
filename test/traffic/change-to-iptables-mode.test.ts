import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import type { LoadResult, Transport } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { DNS } from './kube-proxy-state.ts';

jest.setTimeout(patient(240_000));

const LOAD_MS = 4_000;
const PER_SECOND = 10;
const WAYS: readonly (readonly [name: string, protocol: Transport, address: string, port: number])[] = [
  ['ClusterIP', 'tcp', '10.202.0.10', 80],
  ['NodePort', 'tcp', '10.200.0.10', 30_080],
  ['external IP', 'tcp', '10.203.0.10', 80],
  ['ClusterIP over IPv6', 'tcp', 'fd00:202::a', 80],
  ['ClusterIP over UDP', 'udp', '10.202.0.20', 53],
];

/** Debian's User-Mode Linux has no nf_tables. */
const HAS_NF_TABLES = process.env['KERNEL_USED'] !== 'uml';

type Change = readonly [from: ProxyMode, to: ProxyMode];
const OF_IPVS: readonly Change[] = [
  ['ipvs', 'iptables'],
  ['iptables', 'ipvs'],
];
const OF_NFTABLES: readonly Change[] = [
  ['nftables', 'iptables'],
  ['iptables', 'nftables'],
];
/** The tests of nftables mode run beside those of ipvs mode, which have tried its changes. */
const CHANGES = TEST_MODE === 'nftables' ? OF_NFTABLES : [...OF_IPVS, ...(HAS_NF_TABLES ? OF_NFTABLES : [])];

/** What shows that a mode translates new connections. */
const SHOWN: Readonly<Record<ProxyMode, readonly [argv: readonly string[], text: string]>> = {
  ipvs: [['ipvsadm', '-Sn'], '10.202.0.10:80'],
  nftables: [['nft', 'list', 'tables'], 'table ip kube-proxy'],
  iptables: [['iptables-save'], '-j KUBE-SVC-'],
};

describe.each(CHANGES)('a change of mode from %s to %s', (from, to) => {
  let directory: string;
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let daemon: LongProcess;
  let held: KeptConnection[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'change-of-mode-'));
    await cp('manifests/demo', directory, { recursive: true });
    await writeFile(path.join(directory, 'dns.yaml'), DNS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
    [node, client] = [bed.node(0), bed.client(0)];
    for (const index of [0, 1, 2]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    daemon = await startDaemon(node, flags(from));
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  function flags(mode: ProxyMode): readonly string[] {
    const cidrs = '--cluster-cidr=10.201.0.0/16,fd00:201::/48';
    return [`--proxy-mode=${mode}`, `--manifests=${directory}`, cidrs];
  }

  async function text(argv: readonly string[]): Promise<string> {
    return (await node.exec(argv, { allowFailure: true })).stdout;
  }

  async function shows(mode: ProxyMode): Promise<boolean> {
    const [argv, part] = SHOWN[mode];
    return (await text(argv)).includes(part);
  }

  async function until(wanted: () => Promise<boolean>): Promise<void> {
    for (let waited = 0; waited < patient(60_000) && !(await wanted()); waited += 300) await sleep(300);
    expect(await wanted()).toBe(true);
  }

  async function hold(): Promise<void> {
    const tcp = WAYS.filter(([, protocol]) => protocol === 'tcp');
    held.push(...(await Promise.all(tcp.map(([, , address, port]) => client.hold(address, port)))));
    await expectHeld();
  }

  async function expectHeld(): Promise<void> {
    for (const connection of held) expect(await connection.ask(4_000)).toMatchObject({ ok: true });
  }

  /** New connections through every way while the change happens. Then the held ones are asked. Returns the ways that failed. */
  async function failuresUnderLoad(change: () => Promise<void>): Promise<readonly unknown[]> {
    let changed = false;
    const loads: LoadResult[][] = [];
    const loaded = (async () => {
      while (!changed) {
        const options = { perSecond: PER_SECOND, durationMs: LOAD_MS, timeoutMs: 4_000 };
        loads.push(
          await Promise.all(WAYS.map(([, protocol, address, port]) => client.load(protocol, address, port, options))),
        );
      }
    })();
    try {
      await change();
    } finally {
      changed = true;
    }
    await loaded;
    const results = loads.flatMap((all) => all.map(({ failures }, index) => ({ way: WAYS[index]?.[0], failures })));
    expect(loads.flat().reduce((sum, { sent }) => sum + sent, 0)).toBeGreaterThan(PER_SECOND);
    await expectHeld();
    return results.filter(({ failures }) => Object.keys(failures).length > 0);
  }

  test('no request fails, and open connections go on', async () => {
    await hold();
    const change = async (): Promise<void> => {
      await daemon.stop();
      daemon = await startDaemon(node, flags(to));
      await until(() => shows(to));
    };
    expect(await failuresUnderLoad(change)).toEqual([]);
    expect(await failuresUnderLoad(() => sleep(500))).toEqual([]);
  });

  test('with a daemon that is killed several times on the way', async () => {
    const change = async (): Promise<void> => {
      await daemon.stop();
      daemon = await startDaemon(node, flags(from));
      await until(() => shows(from));
      await daemon.stop();
      for (const afterMs of [150, 400, 650, 900, 1_200]) {
        const unlucky = await node.spawn(daemonArgv(node, flags(to)));
        await sleep(patient(afterMs));
        unlucky.signal('SIGKILL');
        await unlucky.ended(5_000);
      }
      daemon = await startDaemon(node, flags(to));
      await until(() => shows(to));
    };
    expect(await failuresUnderLoad(change)).toEqual([]);
  });

  test(`in the end nothing of ${from} mode is left, and everything of ${to} mode is there`, async () => {
    await Promise.all(held.map((connection) => connection.close()));
    held = [];
    await daemon.stop();
    daemon = await startDaemon(node, [...flags(to), '--ipvs-drain-timeout=1s']);
    await until(async () => !(await shows(from)) && (from !== 'ipvs' || !(await isIpvsLeft())));
    expect(await failuresUnderLoad(() => sleep(500))).toEqual([]);
    if (to === 'iptables') await expectNoDrift();
  });

  /** What only ipvs mode has. */
  async function isIpvsLeft(): Promise<boolean> {
    const found = [await text(['ip', 'link', 'show', 'kube-ipvs0']), await text(['ipset', 'list', '-n'])];
    const rules = `${await text(['iptables-save'])}${await text(['ip6tables-save'])}`;
    return found.join('').trim() !== '' || /KUBE-(IPVS|LOAD-BALANCER|NODE-PORT |SOURCE-RANGES)/.test(rules);
  }

  /** Another start finds everything in force: it writes no rules. */
  async function expectNoDrift(): Promise<void> {
    await daemon.stop();
    daemon = await startDaemon(node, flags(to));
    await sleep(patient(1_000));
    expect(daemon.output).not.toContain('rules written');
  }
});
