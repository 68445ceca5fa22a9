import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import type { ProbeResult } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { DNS, GUARDED, GUARDED_WAY } from './added-services.ts';
import { LEAST_REQUESTS, LOAD_CLIENTS, type LoadReport, type Way, underLoad } from './steady-load.ts';

/** The ways to the Services of the demo, and to those that are added here. */
export const WAYS: readonly Way[] = [
  ['ClusterIP', 'tcp', '10.202.0.10', 80],
  ['NodePort', 'tcp', '10.200.0.10', 30_080],
  ['external IP', 'tcp', '10.203.0.10', 80],
  ['ClusterIP over IPv6', 'tcp', 'fd00:202::a', 80],
  ['ClusterIP over UDP', 'udp', '10.202.0.20', 53],
  GUARDED_WAY,
];

const OTHER_PORT = 9_999;
/** In userspace mode, a daemon waits for its connections for 10 s. */
const STOP_MS = 20_000;
/** Of connections that stay open: not one of the ports that the load uses in turn (source-ports.ts). */
const FIRST_HELD_PORT = 10_300;
const OWN_WAYS: readonly string[] = ['ClusterIP', 'external IP', 'ClusterIP over IPv6'];

/** What shows that a mode serves new connections. */
const SHOWN: Readonly<Record<ProxyMode, readonly [argv: readonly string[], text: string]>> = {
  ipvs: [['ipvsadm', '-Sn'], '10.202.0.10:80'],
  nftables: [['nft', 'list', 'tables'], 'table ip kube-proxy'],
  iptables: [['iptables-save'], '-j KUBE-SVC-'],
  userspace: [['nft', 'list', 'map', 'ip', 'kube-proxy', 'service-endpoints'], ' . 20000'],
};

/** A node of the demo's cluster whose daemon starts in one mode after another, and the clients that have connections meanwhile. */
export class ChangingNode {
  daemon: LongProcess;
  readonly #bed: Bed;
  readonly #directory: string;
  #held: KeptConnection[] = [];
  #own: KeptConnection[] = [];
  #nextHeldPort = FIRST_HELD_PORT;

  private constructor(bed: Bed, directory: string, daemon: LongProcess) {
    this.#bed = bed;
    this.#directory = directory;
    this.daemon = daemon;
  }

  static async create(mode: ProxyMode): Promise<ChangingNode> {
    const directory = await mkdtemp(path.join(tmpdir(), 'change-of-mode-'));
    await cp('manifests/demo', directory, { recursive: true });
    await writeFile(path.join(directory, 'more.yaml'), `${DNS}---\n${GUARDED}`);
    const bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: LOAD_CLIENTS });
    for (const index of [0, 1, 2]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    return new ChangingNode(bed, directory, await startDaemon(bed.node(0), flags(directory, mode)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bed[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true });
  }

  get #node(): Namespace {
    return this.#bed.node(0);
  }

  async restart(mode: ProxyMode, ...more: readonly string[]): Promise<void> {
    await this.daemon.stop(patient(STOP_MS));
    this.daemon = await startDaemon(this.#node, [...flags(this.#directory, mode), ...more]);
  }

  /** Starts the next daemon before this one ends, with ports of its own. */
  async restartBeside(mode: ProxyMode): Promise<void> {
    const ports = ['--healthz-bind-address=0.0.0.0:20256', '--metrics-bind-address=127.0.0.1:20249', '--query-socket='];
    const next = await startDaemon(this.#node, [...flags(this.#directory, mode), ...ports]);
    await this.daemon.stop(patient(STOP_MS));
    this.daemon = next;
  }

  /** Starts daemons in this mode that are killed after a time, each later than the one before, and then one that stays. */
  async restartAfterKills(mode: ProxyMode): Promise<void> {
    await this.daemon.stop();
    for (const afterMs of [150, 400, 650, 900, 1_200]) {
      const unlucky = await this.#node.spawn(daemonArgv(this.#node, flags(this.#directory, mode)));
      await sleep(patient(afterMs));
      unlucky.signal('SIGKILL');
      await unlucky.ended(5_000);
    }
    this.daemon = await startDaemon(this.#node, flags(this.#directory, mode));
  }

  /** Waits until new connections are served by this mode. */
  async untilServedBy(mode: ProxyMode): Promise<void> {
    const [argv, shown] = SHOWN[mode];
    await this.#until(async () => (await this.#text(...argv)).includes(shown));
  }

  /** Waits until nothing of a mode is left, now that another one serves. */
  async untilGone(mode: ProxyMode, now: ProxyMode): Promise<void> {
    await this.#until(async () => (await this.#leftovers(mode, now)) === '');
  }

  /** Opens a connection through every way over TCP. */
  async hold(): Promise<void> {
    const tcp = WAYS.filter(([, protocol]) => protocol === 'tcp');
    const client = this.#bed.client(0);
    const held = tcp.map(([, , address, port]) =>
      client.hold(address, port, { reset: true, sourcePort: this.#nextHeldPort++ }),
    );
    this.#held.push(...(await Promise.all(held)));
  }

  /** Connections of the node itself to service addresses, from these: as the kernel makes them while they are bound. */
  async holdOwn(): Promise<void> {
    // The addresses may be unbound by now, and local by a route only.
    await this.#node.exec(['sysctl', '-qw', 'net.ipv6.ip_nonlocal_bind=1']);
    const addresses = WAYS.filter(([name]) => OWN_WAYS.includes(name));
    const options = addresses.map(([, , address, port]) => [address, port, { sourceAddress: address }] as const);
    this.#own.push(...(await Promise.all(options.map((option) => this.#node.hold(...option)))));
  }

  /** Asks a program of the node that listens on all addresses, at service addresses that the node has connections from. */
  async askOtherPorts(): Promise<readonly ProbeResult[]> {
    const server = await this.#node.serveTcp(OTHER_PORT);
    const addresses = WAYS.filter(([name]) => OWN_WAYS.includes(name)).map(([, , address]) => address);
    const results = await Promise.all(addresses.map((address) => this.#bed.client(0).probeTcp(address, OTHER_PORT)));
    await server.close();
    return results;
  }

  async release(): Promise<void> {
    await Promise.all(this.#held.map((connection) => connection.close()));
    this.#held = [];
  }

  async releaseOwn(): Promise<void> {
    await Promise.all(this.#own.map((connection) => connection.close()));
    this.#own = [];
    await this.#text('conntrack', '-F');
  }

  /** Waits until IPVS has no virtual server. */
  async untilIpvsIsIdle(): Promise<void> {
    await this.#until(async () => !/^-A/m.test(await this.#text('ipvsadm', '-Sn')));
  }

  /** Asks through each held connection. Returns what went wrong. */
  async brokenConnections(): Promise<readonly unknown[]> {
    const all = [...this.#held, ...this.#own];
    if (all.length === 0) throw new Error('no connection is held');
    const results = await Promise.all(all.map((connection) => connection.ask(4_000)));
    return results.filter(({ ok }) => !ok);
  }

  /** New connections through every way while something happens, and at least so many. */
  async load(happens: () => Promise<void>, least = LEAST_REQUESTS): Promise<LoadReport> {
    const clients = Array.from({ length: LOAD_CLIENTS }, (_, index) => this.#bed.client(index));
    return await underLoad(clients, WAYS, happens, least);
  }

  /**
   * The connections of IPVS: protocol, virtual server and client, in a line each. Its counters would not do: the kernel updates
   * them only every two seconds.
   */
  async connectionsOfIpvs(): Promise<readonly string[]> {
    const lines = (await this.#text('ipvsadm', '-Lnc')).split('\n').map((line) => line.trim().split(/\s+/));
    return lines
      .filter(([protocol = '']) => ['TCP', 'UDP'].includes(protocol))
      .map(([protocol, , , source, virtual]) => `${protocol} ${virtual} ${source}`);
  }

  async #leftovers(mode: ProxyMode, now: ProxyMode): Promise<string> {
    const rules = (await this.#text('iptables-save')) + (await this.#text('ip6tables-save'));
    const chainsOf = (own: RegExp): string => (now === 'nftables' ? /KUBE-.*/ : own).exec(rules)?.[0] ?? '';
    switch (mode) {
      case 'ipvs': {
        const own = [await this.#text('ip', 'link', 'show', 'kube-ipvs0'), await this.#text('ipset', 'list', '-n')];
        const servers = await this.#text('ipvsadm', '-Sn');
        return `${own.join('')}${servers}${chainsOf(/KUBE-(IPVS|LOAD-BALANCER|NODE-PORT |SOURCE-RANGES).*/)}`.trim();
      }
      case 'nftables':
      case 'userspace':
        return (await this.#text('nft', 'list', 'tables')).match(/.*kube-proxy/)?.[0] ?? '';
      case 'iptables':
        return chainsOf(/KUBE-(SVC|SVL|SEP|EXT)-.*/);
    }
  }

  async #text(...argv: readonly string[]): Promise<string> {
    return (await this.#node.exec(argv, { allowFailure: true })).stdout;
  }

  async #until(wanted: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + patient(60_000);
    while (!(await wanted())) {
      if (performance.now() > deadline) throw new Error(`not within a minute; output:\n${this.daemon.output}`);
      await sleep(300);
    }
  }
}

function flags(directory: string, mode: ProxyMode): readonly string[] {
  return [`--proxy-mode=${mode}`, `--manifests=${directory}`, '--cluster-cidr=10.201.0.0/16,fd00:201::/48'];
}
