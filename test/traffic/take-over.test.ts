import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { LoadResult, ProbeResult, Transport } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { DNS } from './added-services.ts';
import {
  ADDRESSES,
  FOREIGN_RULES,
  FOREIGN_SETS,
  FOREIGN_VIRTUAL_SERVERS,
  JUMPS,
  KUBELET_RULE,
  SET_ENTRIES,
  VIRTUAL_SERVERS,
  cleanUpAsKubeProxy,
  leaveKubeProxyState,
  leaveStaleState,
  setCreations,
  syncAsKubeProxy,
} from './kube-proxy-state.ts';

jest.setTimeout(patient(240_000));

/** Larger than any initial size: a set that is created again would not have it. */
const HASH_SIZE = 4096;
const LOAD_MS = 8_000;
const UDP_SOURCE_PORT = 40_404;
const WAYS: readonly (readonly [name: string, protocol: Transport, address: string, port: number])[] = [
  ['ClusterIP', 'tcp', '10.202.0.10', 80],
  ['NodePort', 'tcp', '10.200.0.10', 30_080],
  ['external IP', 'tcp', '10.203.0.10', 80],
  ['ClusterIP over IPv6', 'tcp', 'fd00:202::a', 80],
  ['ClusterIP over UDP', 'udp', '10.202.0.20', 53],
];

describe('a node that kube-proxy in ipvs mode served is taken over, and given back', () => {
  let directory: string;
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let daemon: LongProcess;
  let foreignRules: readonly string[];
  let held: readonly KeptConnection[];

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'take-over-'));
    await cp('manifests/demo', directory, { recursive: true });
    await writeFile(path.join(directory, 'dns.yaml'), DNS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
    node = bed.node(0);
    client = bed.client(0);
    for (const index of [0, 1, 2]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    await leaveKubeProxyState(node, HASH_SIZE);
    await leaveStaleState(node);
    foreignRules = await foreignRulesOf(node);
    held = await Promise.all(
      WAYS.filter(([, protocol]) => protocol === 'tcp').map(([, , address, port]) => client.hold(address, port)),
    );
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  function flags(): readonly string[] {
    const cidrs = '--cluster-cidr=10.201.0.0/16,fd00:201::/48';
    return ['--ipvs-scheduler=rr', `--manifests=${directory}`, cidrs, '--ipvs-sync-period=5s', '-v=4'];
  }

  async function lines(...argv: readonly string[]): Promise<readonly string[]> {
    return (await node.exec(argv)).stdout.split('\n').filter((line) => line !== '');
  }

  /**
   * Requests through every way, and the UDP flow and the long connections all the while; meanwhile, `change` happens. However long that
   * takes on a busy machine: the load is repeated until it ends.
   */
  async function underLoad(change: () => Promise<void>): Promise<void> {
    let changed = false;
    let over = false;
    const loads: LoadResult[][] = [];
    const load = async (): Promise<void> => {
      while (!changed) {
        const options = { perSecond: 8, durationMs: LOAD_MS, timeoutMs: 4_000 };
        loads.push(
          await Promise.all(WAYS.map(([, protocol, address, port]) => client.load(protocol, address, port, options))),
        );
      }
    };
    const loaded = load().finally(() => {
      over = true;
    });
    const flow = askAgainUntil(() => over, client);
    try {
      await change();
    } finally {
      changed = true;
    }
    await loaded;
    for (const results of loads) {
      for (const [index, { sent, answers, failures }] of results.entries()) {
        const counted = { way: WAYS[index]?.[0], failures, sent };
        expect(counted).toEqual({ way: WAYS[index]?.[0], failures: {}, sent: (LOAD_MS / 1000) * 8 });
        expect(onlyPods(answers)).toEqual([]);
      }
    }
    const answered = await flow;
    expect(answered.length).toBeGreaterThan(10);
    expect(new Set(answered.map((result) => (result.ok ? result.answeredBy : result.code))).size).toBe(1);
    for (const connection of held) {
      const now = await connection.ask();
      expect(now).toEqual(connection.first);
    }
  }

  test('the test bed has the state that kube-proxy leaves, and serves', async () => {
    expect((await lines('ipvsadm', '-Sn')).length).toBeGreaterThan(VIRTUAL_SERVERS.length);
    for (const connection of held) expect(connection.first).toMatchObject({ ok: true });
    for (const [, protocol, address, port] of WAYS) {
      expect(await client.probe(protocol, address, port)).toMatchObject({ ok: true });
    }
  });

  test('the daemon starts under load: no request fails, no connection breaks, the UDP flow stays with its pod', async () => {
    const before = await connections(node);
    await underLoad(async () => {
      daemon = await startDaemon(node, flags());
    });
    // A virtual server that was created again would have counters of zero.
    const after = await connections(node);
    for (const [name, count] of before) expect([name, (after.get(name) ?? 0) >= count]).toEqual([name, true]);
  });

  test('a take-over adopts wanted objects, removes leftovers and does not touch foreign objects', async () => {
    expect(sorted(await lines('ipvsadm', '-Sn'))).toEqual(sorted([...VIRTUAL_SERVERS, ...FOREIGN_VIRTUAL_SERVERS]));
    expect(await boundAddresses(node)).toEqual(sorted(ADDRESSES));
    // Adopted with our flags, so that the node never chooses one as source address; the interface stays down.
    const bound = (await lines('ip', '-o', '-6', 'addr', 'show', 'dev', 'kube-ipvs0')).filter((line) =>
      / fd00/.test(line),
    );
    expect(bound.filter((line) => !/ nodad deprecated .* preferred_lft 0sec/.test(line.replaceAll('\\', ' ')))).toEqual(
      [],
    );
    expect(bound.length).toBeGreaterThan(0);
    expect(await lines('ip', '-o', 'link', 'show', 'dev', 'kube-ipvs0', 'up')).toEqual([]);
    // But for a set that kube-proxy does not know.
    const saved = (await lines('ipset', 'save')).filter((line) => !/ KUBE-(?:6-)?NODE-PORT-IP /.test(line));
    expect(sorted(saved.filter((line) => line.startsWith('add ')))).toEqual(
      sorted([
        ...SET_ENTRIES.map((entry) => `add ${entry}`),
        ...FOREIGN_SETS.filter((line) => line.startsWith('add ')),
      ]),
    );
    // Each set is the one that was there: its hash has the size that it was made with.
    const made = saved.filter((line) => line.startsWith('create ')).map(withoutOwnDetails);
    expect(sorted(made)).toEqual(
      sorted([...setCreations(HASH_SIZE), ...FOREIGN_SETS.filter((line) => line.startsWith('create '))]),
    );
    expect(await foreignRulesOf(node)).toEqual(foreignRules);
    expect(foreignRules).toHaveLength(FOREIGN_RULES.length);
  });

  test('after a take-over each jump exists once, and full checks find no drift', async () => {
    const jumps = (await lines('iptables-save', '-t', 'nat')).concat(await lines('iptables-save', '-t', 'filter'));
    for (const { from, to, comment } of JUMPS) {
      const jump = `-A ${from} -m comment --comment "${comment}" -j ${to}`;
      expect(jumps.filter((line) => line === jump)).toEqual([jump]);
    }
    await daemon.waitForOutput(/synced.*kind="?full(.|\n)*synced.*kind="?full/, 30_000);
    expect(daemon.output).not.toMatch(/refused|differed from the plan|restored/);
  });

  test('after SIGTERM a kube-proxy finds its own state, and its sync under load breaks nothing', async () => {
    await underLoad(async () => {
      await daemon.stop(10_000);
      expect(daemon.exit).toBe(0);
      expect(sorted(await lines('ipvsadm', '-Sn'))).toEqual(sorted([...VIRTUAL_SERVERS, ...FOREIGN_VIRTUAL_SERVERS]));
      // Demands every set, with its type and size, and every jump, as kube-proxy does; then rewrites its chains.
      await syncAsKubeProxy(node);
    });
    const rules = (await lines('iptables-save')).join('\n');
    expect(rules).toContain('Kubernetes service cluster ip + port for masquerade purpose');
    expect(await foreignRulesOf(node)).toEqual(foreignRules);
  });

  test('a second take-over under load, after kube-proxy has run again, breaks nothing', async () => {
    await underLoad(async () => {
      daemon = await startDaemon(node, flags());
    });
    expect((await lines('iptables-save')).join('\n')).not.toContain('Kubernetes service cluster ip + port');
    await daemon.stop(10_000);
    expect(daemon.exit).toBe(0);
  });

  test('--cleanup removes our objects and kube-proxy’s, and no foreign ones', async () => {
    await node.exec(daemonArgv(node, ['--cleanup']), { timeoutMs: 60_000 });
    expect(sorted(await lines('ipvsadm', '-Sn'))).toEqual(sorted(FOREIGN_VIRTUAL_SERVERS));
    expect(sorted((await lines('ipset', 'save')).map(withoutOwnDetails))).toEqual(sorted(FOREIGN_SETS));
    expect(await foreignRulesOf(node)).toEqual(foreignRules);
    await expectNothingLeft();
  });

  test('kube-proxy --cleanup finds nothing after ours; ours removes what kube-proxy’s leaves', async () => {
    expect(await cleanUpAsKubeProxy(node)).toEqual([]);
    daemon = await startDaemon(node, flags());
    await daemon.stop(10_000);
    // Chains that it does not know hold these sets.
    const refused = await cleanUpAsKubeProxy(node);
    expect(refused).toContain('ipset destroy KUBE-CLUSTER-IP');
    expect(refused.filter((command) => !command.startsWith('ipset destroy KUBE-'))).toEqual([]);
    await node.exec(daemonArgv(node, ['--cleanup']), { timeoutMs: 60_000 });
    await expectNothingLeft();
    expect(await cleanUpAsKubeProxy(node)).toEqual([]);
  });

  async function expectNothingLeft(): Promise<void> {
    expect(sorted((await lines('ipset', 'save')).map(withoutOwnDetails))).toEqual(sorted(FOREIGN_SETS));
    const left = (await lines('iptables-save')).filter((line) => line.includes('KUBE-'));
    // In table nat KUBE-FIREWALL was kube-proxy's, in table filter it is the kubelet's, and so is KUBE-MARK-DROP.
    const ofKubelet = FOREIGN_RULES.map(([, rule]) => rule).filter((rule) => rule.includes('KUBE-'));
    expect(sorted(left.filter((line) => line.startsWith('-A')))).toEqual(sorted([...ofKubelet, KUBELET_RULE]));
    expect(left.filter((line) => line.startsWith(':')).map((line) => line.split(' ')[0])).toEqual(
      expect.arrayContaining([':KUBE-FIREWALL', ':KUBE-MARK-DROP']),
    );
    expect(left.filter((line) => line.startsWith(':'))).toHaveLength(2);
    expect((await node.exec(['ip', '-o', 'link'])).stdout).not.toContain('kube-ipvs0');
  }
});

function sorted(list: readonly string[]): readonly string[] {
  return list.toSorted();
}

/** Hosts that responded and are not pods of the Services. */
function onlyPods(answers: LoadResult['answers']): readonly string[] {
  return Object.keys(answers).filter((name) => name !== 'pod-0-0' && name !== 'pod-0-1');
}

/** One UDP flow: every question comes from the same port. */
async function askAgainUntil(over: () => boolean, client: Namespace): Promise<readonly ProbeResult[]> {
  const results: ProbeResult[] = [];
  while (!over()) {
    results.push(await client.probeUdp('10.202.0.20', 53, { sourcePort: UDP_SOURCE_PORT, timeoutMs: 4_000 }));
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return results;
}

/** Connections that each virtual server of kube-proxy's has counted since it was made. */
async function connections(node: Namespace): Promise<ReadonlyMap<string, number>> {
  const { stdout } = await node.exec(['ipvsadm', '-Ln', '--stats', '--exact']);
  const wanted = new Set(VIRTUAL_SERVERS.filter((line) => line.startsWith('-A ')).map((line) => line.split(' ')[2]));
  const counts = new Map<string, number>();
  for (const [, name = '', count] of stdout.matchAll(/^(?:TCP|UDP) +(\S+) +(\d+)/gm)) {
    if (wanted.has(name)) counts.set(name, Number(count));
  }
  if (counts.size !== wanted.size) throw new Error(`not every virtual server is there:\n${stdout}`);
  return counts;
}

async function boundAddresses(node: Namespace): Promise<readonly string[]> {
  const { stdout } = await node.exec(['ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0', 'scope', 'global']);
  return sorted(Array.from(stdout.matchAll(/inet6? (\S+)/g), ([, address = '']) => address));
}

async function foreignRulesOf(node: Namespace): Promise<readonly string[]> {
  const { stdout } = await node.exec(['iptables-save']);
  const foreign = new Set(FOREIGN_RULES.map(([, rule]) => rule));
  return stdout.split('\n').filter((line) => foreign.has(line));
}

/** What the kernel makes up for itself. */
function withoutOwnDetails(line: string): string {
  return line.replace(/ (bucketsize|initval) \S+/g, '');
}
