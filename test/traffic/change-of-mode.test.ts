import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { DNS } from './kube-proxy-state.ts';
import { LEAST_REQUESTS, LOAD_CLIENTS, LOAD_TIME_MS, type Way, underLoad } from './steady-load.ts';

jest.setTimeout(patient(240_000) + LOAD_TIME_MS);

type Mode = 'ipvs' | 'nftables';

const WAYS: readonly Way[] = [
  ['ClusterIP', 'tcp', '10.202.0.10', 80],
  ['NodePort', 'tcp', '10.200.0.10', 30_080],
  ['external IP', 'tcp', '10.203.0.10', 80],
  ['ClusterIP over IPv6', 'tcp', 'fd00:202::a', 80],
  ['ClusterIP over UDP', 'udp', '10.202.0.20', 53],
];

function onKernelWithBoth(): void {
  let directory: string;
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let clients: readonly Namespace[];
  let daemon: LongProcess;
  /** Opened in each mode, and never closed by the test of it. */
  let held: KeptConnection[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'change-of-mode-'));
    await cp('manifests/demo', directory, { recursive: true });
    await writeFile(path.join(directory, 'dns.yaml'), DNS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: LOAD_CLIENTS });
    [node, client] = [bed.node(0), bed.client(0)];
    clients = Array.from({ length: LOAD_CLIENTS }, (_, index) => bed.client(index));
    for (const index of [0, 1, 2]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    daemon = await startDaemon(node, flags('ipvs'));
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  function flags(mode: Mode): readonly string[] {
    const cidrs = '--cluster-cidr=10.201.0.0/16,fd00:201::/48';
    return [`--proxy-mode=${mode}`, `--manifests=${directory}`, cidrs];
  }

  async function text(...argv: readonly string[]): Promise<string> {
    return (await node.exec(argv, { allowFailure: true })).stdout;
  }

  let current: Mode = 'ipvs';

  async function restartAs(mode: Mode): Promise<void> {
    await daemon.stop();
    daemon = await startDaemon(node, flags(mode));
    current = mode;
  }

  /** If a test is run alone, the one before has not changed the mode. */
  async function startFrom(mode: Mode): Promise<void> {
    if (current !== mode) await restartAs(mode);
  }

  /** Starts a daemon in this mode, and kills it after a time; each time later. */
  async function killedOnTheWayTo(mode: Mode): Promise<void> {
    await daemon.stop();
    for (const afterMs of [150, 400, 650, 900, 1_200]) {
      const unlucky = await node.spawn(daemonArgv(node, flags(mode)));
      await sleep(patient(afterMs));
      unlucky.signal('SIGKILL');
      await unlucky.ended(5_000);
    }
    daemon = await startDaemon(node, flags(mode));
    current = mode;
  }

  /** Opens a connection through every way over TCP. */
  async function hold(): Promise<void> {
    const tcp = WAYS.filter(([, protocol]) => protocol === 'tcp');
    held.push(...(await Promise.all(tcp.map(([, , address, port]) => client.hold(address, port)))));
  }

  async function expectHeld(): Promise<void> {
    expect(held.length).toBeGreaterThan(0);
    for (const connection of held) expect(await connection.ask(4_000)).toMatchObject({ ok: true });
  }

  /** New connections through every way while the change happens: none fails. Then the held ones are asked. */
  async function withoutFailure(change: () => Promise<void>, least = LEAST_REQUESTS): Promise<number> {
    const { sent, failures } = await underLoad(clients, WAYS, change, least);
    expect(failures).toEqual({});
    await expectHeld();
    return sent;
  }

  /**
   * The connections of IPVS, by virtual server and client port. Its counters would not do: the kernel updates them only every
   * two seconds.
   */
  async function connectionsOfIpvs(): Promise<readonly string[]> {
    const lines = (await text('ipvsadm', '-Lnc')).split('\n').map((line) => line.trim().split(/\s+/));
    return lines
      .filter(([protocol = '']) => ['TCP', 'UDP'].includes(protocol))
      .map(([protocol, , , source, virtual]) => `${protocol} ${virtual} ${source}`);
  }

  async function isIpvsLeft(): Promise<boolean> {
    const device = await text('ip', 'link', 'show', 'kube-ipvs0');
    const found = [device, await text('ipvsadm', '-Sn'), await text('ipset', 'list', '-n')];
    const rules = `${await text('iptables-save')}${await text('ip6tables-save')}`;
    return found.join('').trim() !== '' || rules.includes('KUBE-');
  }

  test('ipvs to nftables: no request fails, and connections of IPVS go on', async () => {
    await hold();
    expect(await withoutFailure(() => restartAs('nftables'))).toBeGreaterThanOrEqual(LEAST_REQUESTS);
    expect(await text('nft', 'list', 'tables')).toContain('table ip kube-proxy');
    expect(await text('iptables-save')).not.toContain('KUBE-SERVICES');
    // IPVS has the held connections only: those that the load has opened since are not its.
    const before = new Set(await connectionsOfIpvs());
    await withoutFailure(() => sleep(500), 0);
    const after = await connectionsOfIpvs();
    expect(after.length).toBeGreaterThan(0);
    expect(after.filter((connection) => !before.has(connection))).toEqual([]);
  });

  test('after a restart and the drain timeout, nothing of ipvs mode is left', async () => {
    expect(await isIpvsLeft()).toBe(true);
    await Promise.all(held.map((connection) => connection.close()));
    held = [];
    // IPVS remembers ended connections for two minutes.
    await daemon.stop();
    daemon = await startDaemon(node, [...flags('nftables'), '--ipvs-drain-timeout=1s']);
    for (let waited = 0; waited < patient(60_000) && (await isIpvsLeft()); waited += 500) await sleep(500);
    expect(await isIpvsLeft()).toBe(false);
    expect(daemon.output).toContain('ipvs mode is retired');
  });

  test('nftables to ipvs: no request fails, and translated connections go on', async () => {
    await startFrom('nftables');
    await hold();
    expect(await withoutFailure(() => restartAs('ipvs'))).toBeGreaterThanOrEqual(LEAST_REQUESTS);
    for (
      let waited = 0;
      waited < patient(60_000) && (await text('nft', 'list', 'tables')).includes('kube-proxy');
      waited += 100
    )
      await sleep(100);
    expect(await text('nft', 'list', 'tables')).not.toContain('kube-proxy');
    await expectHeld();
    const before = new Set(await connectionsOfIpvs());
    await withoutFailure(() => sleep(500), 0);
    const added = (await connectionsOfIpvs()).filter((connection) => !before.has(connection));
    const served = new Set(added.map((connection) => connection.slice(0, connection.lastIndexOf(' '))));
    expect(served.size).toBe(WAYS.length);
  });

  test('killed several times on the way to nftables', async () => {
    await startFrom('ipvs');
    await hold();
    await withoutFailure(() => killedOnTheWayTo('nftables'));
    expect(await text('nft', 'list', 'tables')).toContain('table ip kube-proxy');
  });

  test('killed several times on the way back to ipvs', async () => {
    await startFrom('nftables');
    await hold();
    await withoutFailure(() => killedOnTheWayTo('ipvs'));
    for (
      let waited = 0;
      waited < patient(60_000) && (await text('nft', 'list', 'tables')).includes('kube-proxy');
      waited += 100
    )
      await sleep(100);
    expect(await text('nft', 'list', 'tables')).not.toContain('kube-proxy');
    await expectHeld();
  });
}

describe('a change of mode', () => {
  // Debian's User-Mode Linux has no nf_tables.
  if (process.env['KERNEL_USED'] === 'uml')
    test.todo('was not tried: it takes a kernel with nf_tables, as KERNEL=uml-nft');
  else onKernelWithBoth();
});
