import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { LoadResult } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(240_000));

const LOAD = { perSecond: 8, durationMs: 8_000, timeoutMs: 4_000 };
const WAYS: readonly (readonly [address: string, port: number])[] = [
  ['10.202.0.10', 80],
  ['10.200.0.10', 30_080],
  ['10.203.0.10', 80],
  ['fd00:202::a', 80],
  ['fd00:200::10', 30_080],
];

interface Addresses {
  readonly services: readonly string[];
  readonly pods: readonly [string, string];
  readonly podNetwork: string;
}

const V4: Addresses = {
  services: ['10.202.0.10', '10.203.0.10'],
  pods: ['10.201.0.10:8080', '10.201.0.11:8080'],
  podNetwork: '10.201.0.0/16',
};
const V6: Addresses = {
  services: ['fd00:202::a'],
  pods: ['[fd00:201::10]:8080', '[fd00:201::11]:8080'],
  podNetwork: 'fd00:201::/48',
};

/** How kube-proxy in iptables mode serves the demo. One Service, which has endpoints by now, had none when it stopped. */
function iptablesMode({ services, pods, podNetwork }: Addresses): string {
  const toServices = services.map(
    (address) => `-A KUBE-SERVICES -d ${address} -p tcp -m tcp --dport 80 -j KUBE-EXT-DEMODEMODEMODEMO`,
  );
  return `*filter
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-SERVICES -d ${services[0]} -p tcp -m tcp --dport 80 -j REJECT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-EXT-DEMODEMODEMODEMO - [0:0]
:KUBE-SVC-DEMODEMODEMODEMO - [0:0]
:KUBE-SEP-FIRSTFIRSTFIRSTF - [0:0]
:KUBE-SEP-OTHEROTHEROTHERO - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
${toServices.join('\n')}
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-DEMODEMODEMODEMO
-A KUBE-EXT-DEMODEMODEMODEMO ! -s ${podNetwork} -j KUBE-MARK-MASQ
-A KUBE-EXT-DEMODEMODEMODEMO -j KUBE-SVC-DEMODEMODEMODEMO
-A KUBE-SVC-DEMODEMODEMODEMO -m statistic --mode random --probability 0.5 -j KUBE-SEP-FIRSTFIRSTFIRSTF
-A KUBE-SVC-DEMODEMODEMODEMO -j KUBE-SEP-OTHEROTHEROTHERO
-A KUBE-SEP-FIRSTFIRSTFIRSTF -p tcp -m tcp -j DNAT --to-destination ${pods[0]}
-A KUBE-SEP-OTHEROTHEROTHERO -p tcp -m tcp -j DNAT --to-destination ${pods[1]}
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
`;
}

describe('a node that kube-proxy in iptables mode served is taken over', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let daemon: LongProcess;
  let held: readonly KeptConnection[];

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    client = bed.client(0);
    for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
    await node.exec(['iptables-restore', '--noflush'], { input: iptablesMode(V4) });
    await node.exec(['ip6tables-restore', '--noflush'], { input: iptablesMode(V6) });
    held = await Promise.all(WAYS.map(([address, port]) => client.hold(address, port)));
  });

  afterAll(() => bed[Symbol.asyncDispose]());

  test('the rules of iptables mode serve', () => {
    expect(held.map(({ first }) => first.ok)).toEqual(WAYS.map(() => true));
  });

  test('the daemon starts under load: no request fails, and no connection breaks', async () => {
    let started = false;
    const loads: LoadResult[] = [];
    // However long the start takes on a busy machine, the load outlasts it.
    const loaded = (async () => {
      while (!started) {
        loads.push(...(await Promise.all(WAYS.map(([address, port]) => client.load('tcp', address, port, LOAD)))));
      }
    })();
    const flags = ['--ipvs-scheduler=rr', '--manifests=manifests/demo', '--cluster-cidr=10.201.0.0/16,fd00:201::/48'];
    try {
      daemon = await startDaemon(node, flags);
    } finally {
      started = true;
    }
    await loaded;
    const sent = (LOAD.durationMs / 1000) * LOAD.perSecond;
    expect(loads.map(({ failures, sent: of }) => [failures, of])).toEqual(loads.map(() => [{}, sent]));
    for (const connection of held) expect(await connection.ask()).toEqual(connection.first);
  });

  test('then IPVS serves, and the chains of iptables mode are removed', async () => {
    await daemon.waitForOutput(/removed the rules that kube-proxy in iptables mode left(.|\n)*ip6tables/, 30_000);
    for (const program of ['iptables-save', 'ip6tables-save']) {
      const { stdout } = await node.exec([program]);
      expect(stdout).not.toMatch(/KUBE-(SVC|SEP|EXT)-|KUBE-NODEPORTS/);
      const filter = stdout.slice(stdout.indexOf('*filter')).split('COMMIT')[0];
      expect(filter).not.toContain('KUBE-SERVICES');
    }
    for (const [address, port] of WAYS) {
      expect(await client.probeTcp(address, port)).toMatchObject({ ok: true });
      const name = address.includes(':') ? `[${address}]` : address;
      // The counters of virtual servers are late, connections are not.
      expect((await node.exec(['ipvsadm', '-Lnc'])).stdout).toContain(` ${name}:${port} `);
    }
    // From the node itself, the rules of iptables mode would reject this one.
    expect(await node.probeTcp('10.202.0.10', 80)).toMatchObject({ ok: true });
    for (const connection of held) expect(await connection.ask()).toEqual(connection.first);
  });
});
