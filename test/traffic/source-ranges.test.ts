import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clientAddress, clusterAddress, externalAddress, podAddress } from '../bed/address-plan.ts';
import type { LoadResult, Transport } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import {
  ManifestDirectory,
  POD_PORT,
  SERVICE_PORT,
  type ServiceShape,
  nodeObjects,
  serviceObjects,
} from './cluster-objects.ts';

jest.setTimeout(180_000);

const UPDATES = 100;
const KNOCKS = { perSecond: 10, durationMs: 2000 };

const VIP = externalAddress(1);
const SERVICE: ServiceShape = {
  name: 'guarded',
  clusterIp: clusterAddress(1),
  protocols: ['TCP', 'UDP'],
  loadBalancerIp: VIP,
  endpoints: [0, 1].map((pod) => ({ addresses: podAddress(0, pod), node: 0 })),
};

const DENY = 'KUBE-LOAD-BALANCER-FW';
const DENY_6 = 'KUBE-6-LOAD-BALANCER-FW';

const FLAGS_OF = TEST_MODE === 'ipvs' ? 'ipvs' : 'iptables';

const IN_TABLES = {
  ranges: ['nft', 'list', 'table', 'ip', 'kube-proxy'],
  served: ['nft', 'list', 'map', 'ip', 'kube-proxy', 'service-ips'],
};

/** Prints, in each mode, the source ranges of a load balancer IP, and the addresses that are served. */
const LISTS = {
  ipvs: { ranges: ['ipset', 'list', 'KUBE-LOAD-BALANCER-SOURCE-CIDR'], served: ['ipvsadm', '-Sn'] },
  nftables: IN_TABLES,
  userspace: IN_TABLES,
  iptables: { ranges: ['iptables-save', '-t', 'nat'], served: ['iptables', '-t', 'nat', '-S', 'KUBE-SERVICES'] },
}[TEST_MODE];

/** Clients 0 and 1 are neighbours: a prefix that holds both still leaves client 2 out. */
const [ALLOWED, FORBIDDEN] = [0, 2];

/** The nth set of ranges: the allowed client is in by another prefix each time, and one range says which set it is. */
function rangesOf(update: number): string[] {
  const { v4, v6 } = clientAddress(ALLOWED);
  const lengths = update % 2 === 0 ? [32, 128] : [31, 127];
  return [`${v4}/${lengths[0]}`, `${v6}/${lengths[1]}`, `${markerOf(update)}/32`];
}

function markerOf(update: number): string {
  return `172.16.${Math.floor(update / 250)}.${1 + (update % 250)}`;
}

/** Asks again and again, through both families and protocols, until `stop` is called; then all that came of it. */
function knock(
  from: Namespace,
  timeoutMs: number,
): { stop(): Promise<{ sent: number; answered: number; failed: number }> } {
  const stopping = new AbortController();
  const count = { sent: 0, answered: 0, failed: 0 };
  const add = ({ sent, answers, failures }: LoadResult): void => {
    const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((a, b) => a + b, 0);
    count.sent += sent;
    count.answered += sum(answers);
    count.failed += sum(failures);
  };
  const lane = async (protocol: Transport, address: string): Promise<void> => {
    while (!stopping.signal.aborted) add(await from.load(protocol, address, SERVICE_PORT, { ...KNOCKS, timeoutMs }));
  };
  // Two lanes each, taking turns: one knocks while the other waits for what may still be answered.
  const later = async (protocol: Transport, address: string): Promise<void> => {
    await sleep((KNOCKS.durationMs + timeoutMs) / 2);
    await lane(protocol, address);
  };
  const lanes = [VIP.v4, VIP.v6].flatMap((address) =>
    (['tcp', 'udp'] as const).flatMap((protocol) => [lane(protocol, address), later(protocol, address)]),
  );
  return {
    stop: async () => {
      stopping.abort();
      await Promise.all(lanes);
      return count;
    },
  };
}

/** loadBalancerSourceRanges while they change all the time: who is out stays out, who is in stays in. */
describe('source ranges', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await publish({ sourceRanges: rangesOf(0) });
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 3 });
    node = bed.node(0);
    await Promise.all(
      [0, 1].flatMap((index) => [bed.pod(0, index).serveTcp(POD_PORT), bed.pod(0, index).serveUdp(POD_PORT)]),
    );
    daemon = await start('30s');
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  function start(syncPeriod: string): Promise<LongProcess> {
    return startDaemon(node, [
      '--ipvs-scheduler=rr',
      `--${FLAGS_OF}-min-sync-period=0s`,
      `--${FLAGS_OF}-sync-period=${syncPeriod}`,
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      `--manifests=${directory.path}`,
    ]);
  }

  /** Ends the daemon without a word, and does something to the kernel before the next one. */
  async function restartAfter(script: string): Promise<void> {
    daemon.signal('SIGKILL');
    expect(await daemon.ended(10_000)).toBe(true);
    await node.exec(['sh', '-ec', script]);
    daemon = await start('3s');
  }

  async function publish(change: Partial<ServiceShape>): Promise<void> {
    await directory.write('guarded', serviceObjects({ ...SERVICE, ...change }));
  }

  async function kernelLists(text: string, command: readonly string[]): Promise<boolean> {
    return (await node.exec(command)).stdout.includes(text);
  }

  /** Virtual servers at the load balancer IPs. */
  async function served(): Promise<string[]> {
    const lines = (await node.exec(['ipvsadm', '-Sn'])).stdout.split('\n');
    return lines.filter((line) => line.startsWith('-A') && [VIP.v4, VIP.v6].some((vip) => line.includes(vip)));
  }

  async function reached(update: number): Promise<void> {
    await expectSoon(async () => {
      const { stdout } = await node.exec(LISTS.ranges);
      return stdout.split(/[^0-9.]/).includes(markerOf(update));
    });
  }

  test(`during ${UPDATES} updates the forbidden client is always rejected and the allowed one always served`, async () => {
    const outside = knock(bed.client(FORBIDDEN), 1000);
    // Late is not cut off.
    const inside = knock(bed.client(ALLOWED), 10_000);
    const start = performance.now();
    for (let update = 1; update <= UPDATES; update++) {
      await publish({ sourceRanges: rangesOf(update) });
      await reached(update);
    }
    const seconds = (performance.now() - start) / 1000;
    const [forbidden, allowed] = await Promise.all([outside.stop(), inside.stop()]);
    const numbers = JSON.stringify({ updates: UPDATES, seconds, forbidden, allowed });
    process.stdout.write(`source ranges: ${numbers}\n`);
    expect(forbidden.sent).toBeGreaterThan(UPDATES * 5);
    expect({ ...forbidden, sent: 0 }).toEqual({ sent: 0, answered: 0, failed: forbidden.sent });
    expect(allowed.sent).toBeGreaterThan(UPDATES * 5);
    expect({ ...allowed, sent: 0 }).toEqual({ sent: 0, answered: allowed.sent, failed: 0 });
  });

  test('a VIP with source ranges that is added and removed ten times is never open to others', async () => {
    const outside = knock(bed.client(FORBIDDEN), 1000);
    const { loadBalancerIp, ...without } = SERVICE;
    expect(loadBalancerIp).toBeDefined();
    for (let round = 0; round < 10; round++) {
      await directory.write('guarded', serviceObjects(without));
      await expectSoon(async () => !(await kernelLists(VIP.v4, LISTS.served)));
      await publish({ sourceRanges: rangesOf(round) });
      await expectSoon(() => kernelLists(VIP.v4, LISTS.served));
    }
    const forbidden = await outside.stop();
    process.stdout.write(`VIP made anew: ${JSON.stringify(forbidden)}\n`);
    expect(forbidden.sent).toBeGreaterThan(50);
    expect(forbidden.answered).toBe(0);
  });

  if (TEST_MODE === 'ipvs')
    test('deny sets of another type at a start are replaced, and no allowed client notices', async () => {
      await publish({ sourceRanges: rangesOf(0) });
      await reached(0);
      // A start takes all of the processor: late is not cut off.
      const inside = knock(bed.client(ALLOWED), 10_000);
      await restartAfter(`${remakeDenySet(4, 'hash:ip,port,ip')}; ${remakeDenySet(6, 'hash:ip,port,ip family inet6')}`);
      const outside = knock(bed.client(FORBIDDEN), 1000);
      const [allowed, forbidden] = [await inside.stop(), await outside.stop()];
      expect({ ...allowed, sent: 0 }).toEqual({ sent: 0, answered: allowed.sent, failed: 0 });
      expect({ ...forbidden, sent: 0 }).toEqual({ sent: 0, answered: 0, failed: forbidden.sent });
      expect(daemon.output).toMatch(
        /replaced ipset KUBE-6-LOAD-BALANCER-FW, which had the wrong type: it was hash:ip,port,ip \(IPv6\)/,
      );
      const sets = (await node.exec(['ipset', 'save', '-t'])).stdout;
      expect(sets).toMatch(/^create KUBE-LOAD-BALANCER-FW hash:ip,port /m);
      expect(sets).not.toContain('~');
    });

  if (TEST_MODE === 'ipvs')
    test('no virtual server is served without its deny entry: with a foreign set, and with a full set that cannot grow', async () => {
      const twin = 'KUBE~6-LOAD-BALANCER-FW';
      const fill = Array.from({ length: 300 }, (_, i) => `add ${DENY_6} 2001:db8::${(i + 1).toString(16)},tcp:1`);
      await restartAfter(
        [
          remakeDenySet(4, 'hash:ip,port,ip'),
          `iptables -A FORWARD -m set --match-set ${DENY} dst,dst,dst -j ACCEPT`,
          remakeDenySet(6, 'hash:ip,port family inet6 maxelem 64'),
          // As far as it takes them.
          `printf '${fill.join('\\n')}\\n' | ipset restore 2>/dev/null || true`,
          `ipset create ${twin} hash:net family inet6; ip6tables -A FORWARD -m set --match-set ${twin} dst -j ACCEPT`,
        ].join('; '),
      );
      expect(await served()).toEqual([]);
      expect(daemon.output).toContain('iptables-save | grep KUBE-LOAD-BALANCER-FW');
      expect(daemon.output).not.toContain('--cleanup');
      const outside = knock(bed.client(FORBIDDEN), 1000);
      await sleep(4000);
      expect(await served()).toEqual([]);
      await node.exec([
        'sh',
        '-ec',
        `iptables -D FORWARD -m set --match-set ${DENY} dst,dst,dst -j ACCEPT;` +
          `ip6tables -D FORWARD -m set --match-set ${twin} dst -j ACCEPT`,
      ]);
      await expectSoon(async () => (await served()).length === 4, 30_000);
      for (const address of [VIP.v4, VIP.v6]) {
        expect(await bed.client(ALLOWED).probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: true });
      }
      const forbidden = await outside.stop();
      expect({ ...forbidden, sent: 0 }).toEqual({ sent: 0, answered: 0, failed: forbidden.sent });
    });

  test('without source ranges the forbidden client is served', async () => {
    await publish({});
    await expectSoon(async () => (await bed.client(FORBIDDEN).probeTcp(VIP.v4, SERVICE_PORT)).ok);
    for (const address of [VIP.v4, VIP.v6]) {
      for (const protocol of ['tcp', 'udp'] as const) {
        expect(await bed.client(FORBIDDEN).probe(protocol, address, SERVICE_PORT)).toMatchObject({ ok: true });
      }
    }
  });
});

/** Shell code: replaces a deny set by one of another type that rules refer to. The rules are removed and restored. */
function remakeDenySet(family: 4 | 6, set: string): string {
  const [program, name] = family === 4 ? ['iptables', DENY] : ['ip6tables', DENY_6];
  const tables = ['filter', 'mangle'];
  const each = (act: string): string => tables.map((table) => `${program} -t ${table} ${act}`).join('; ');
  const rule = `-A KUBE-PROXY-FIREWALL -m set --match-set ${name} dst,dst -j KUBE-SOURCE-RANGES-FIREWALL`;
  return `${each('-F KUBE-PROXY-FIREWALL')}; ipset destroy ${name}; ipset create ${name} ${set}; ${each(rule)}`;
}

async function expectSoon(condition: () => Promise<boolean>, withinMs = 10_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms`);
    await sleep(20);
  }
}
