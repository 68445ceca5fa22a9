import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import type { ProbeRequest, ProbeResult } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';
import {
  type EndpointShape,
  ManifestDirectory,
  POD_PORT,
  SERVICE_PORT,
  type ServiceShape,
  nodeObjects,
  serviceObjects,
} from './cluster-objects.ts';

jest.setTimeout(patient(300_000));

const CONNECTIONS = 10_000;
/** Of all connections: how far an endpoint's share may be from what the weights say. */
const TOLERANCE = 0.03;
const PARALLEL = 32;

function who(result: ProbeResult): string {
  return result.ok ? result.answeredBy : result.code;
}

function endpoint(pod: number, zone: string): EndpointShape {
  return { addresses: podAddress(0, pod), node: 0, zone };
}

/** What a Service asks for by its annotations, with packets. Scenarios in annotations/ have what needs no numbers. */
describe('annotations of a Service', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let directory: ManifestDirectory;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 2 });
    [node, client] = [bed.node(0), bed.client(0)];
    for (const pod of [0, 1, 2]) {
      await bed.pod(0, pod).serveTcp(POD_PORT);
      await bed.pod(0, pod).serveUdp(POD_PORT);
    }
    const permitted =
      'scheduler,scheduler-flags,weights,drain-timeout,connection-limit,session-affinity-mask,one-packet';
    const flags = [
      '--ipvs-scheduler=rr',
      '--ipvs-min-sync-period=0s',
      '--ipvs-udp-timeout=4s',
      `--service-annotations=${permitted}`,
    ];
    await startDaemon(node, [...flags, `--manifests=${directory.path}`]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  /** Writes a Service, and waits until the kernel has all of these texts in its lines about it. */
  async function publish(
    shape: Omit<ServiceShape, 'clusterIp'> & { readonly at: number },
    ...wanted: readonly string[]
  ): Promise<string> {
    const clusterIp = clusterAddress(shape.at);
    await directory.write(shape.name, serviceObjects({ ...shape, clusterIp }));
    await soon(`${shape.name}: ${wanted.join(', ')}`, async () => {
      const lines = await linesOf(clusterIp.v4);
      if (!wanted.every((text) => lines.some((line) => line.includes(text)))) return false;
      // The address comes after the real servers.
      const { stdout } = await node.exec(['ip', '-o', 'address', 'show', 'dev', 'kube-ipvs0']);
      return stdout.includes(` ${clusterIp.v4}/32 `);
    });
    return clusterIp.v4;
  }

  async function linesOf(address: string): Promise<readonly string[]> {
    const { stdout } = await node.exec(['ipvsadm', '-Sn']);
    return stdout.split('\n').filter((line) => line.includes(` ${address}:${SERVICE_PORT}`));
  }

  /** The share of each Pod in as many connections. */
  async function shares(address: string, count: number): Promise<ReadonlyMap<string, number>> {
    const target = { address, port: SERVICE_PORT };
    const probe: ProbeRequest = { protocol: 'tcp', target, timeoutMs: patient(20_000) };
    const results = await client.probeAll(
      Array.from({ length: count }, () => probe),
      PARALLEL,
    );
    const counts = new Map<string, number>();
    for (const result of results) counts.set(who(result), (counts.get(who(result)) ?? 0) + 1);
    return new Map(Array.from(counts, ([name, many]) => [name, many / count]));
  }

  test.each([
    ['wrr', {}],
    ['mh', { 'scheduler-flags': 'mh-port' }],
  ])(`weights with %s: ${CONNECTIONS} connections`, async (scheduler, flags) => {
    const address = await publish(
      {
        name: 'weighted',
        at: 1,
        annotations: { scheduler, weights: 'zone=a:3,zone=b:1', ...flags },
        endpoints: [endpoint(0, 'a'), endpoint(1, 'a'), endpoint(2, 'b')],
      },
      `-s ${scheduler}`,
      `${podAddress(0, 0).v4}:${POD_PORT} -m -w 3`,
      `${podAddress(0, 2).v4}:${POD_PORT} -m -w 1`,
    );
    const found = await shares(address, CONNECTIONS);
    process.stdout.write(`${scheduler}, ${CONNECTIONS} connections: ${JSON.stringify(Object.fromEntries(found))}\n`);
    expect([...found.keys()].toSorted()).toEqual(['pod-0-0', 'pod-0-1', 'pod-0-2']);
    for (const [pod, share] of [
      ['pod-0-0', 3 / 7],
      ['pod-0-1', 3 / 7],
      ['pod-0-2', 1 / 7],
    ] as const) {
      expect(Math.abs((found.get(pod) ?? 0) - share)).toBeLessThan(TOLERANCE);
    }
  });

  test('connection-limit: no endpoint gets more; a higher one applies at once and cuts nothing', async () => {
    const shape = { name: 'limited', at: 2, endpoints: [endpoint(0, 'a'), endpoint(1, 'a')] };
    const limits = async (at: string): Promise<readonly string[]> => {
      const { stdout } = await node.exec(['ipvsadm', '-Ln', '-t', `${at}:${SERVICE_PORT}`, '--thresholds']);
      return Array.from(stdout.matchAll(/-> \S+ +(\d+) +(\d+)/g), ([, upper, lower]) => `${upper}/${lower}`);
    };
    const limited = async (limit: string | undefined, upperAndLower: string): Promise<string> => {
      const annotations = limit === undefined ? {} : { 'connection-limit': limit };
      const at = await publish({ ...shape, annotations }, '-s rr');
      const wanted = [upperAndLower, upperAndLower].join();
      await soon(`limits ${wanted}`, async () => (await limits(at)).join() === wanted);
      return at;
    };
    const address = await limited('4/2', '4/2');
    const held = [];
    for (let count = 0; count < 8; count++) held.push(await client.hold(address, SERVICE_PORT));
    const pods = held.map(({ first }) => who(first)).toSorted();
    expect(pods).toEqual([
      ...Array.from({ length: 4 }, () => 'pod-0-0'),
      ...Array.from({ length: 4 }, () => 'pod-0-1'),
    ]);
    expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: false });
    await limited('6', '6/0');
    expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: true });
    for (const connection of held) expect(await connection.ask()).toMatchObject({ ok: true });
    await limited(undefined, '0/0');
    for (const connection of held) {
      expect(await connection.ask()).toMatchObject({ ok: true });
      await connection.close();
    }
    for (let count = 0; count < 8; count++)
      expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: true });
  });

  test('connection-limit: a full endpoint gets no new connections until it has fewer than the second number', async () => {
    const shape = { name: 'hysteresis', at: 7, protocols: ['UDP'] as const, endpoints: [endpoint(0, 'a')] };
    const address = await publish({ ...shape, annotations: { 'connection-limit': '4/2' } }, '-s rr');
    const send = async (sourcePort: number): Promise<boolean> =>
      (await client.probeUdp(address, SERVICE_PORT, { sourcePort, timeoutMs: 300 })).ok;
    /** The datagrams of these ports keep as many connections, while those of other ports time out. */
    const keep = async (ports: readonly number[]): Promise<void> => {
      await soon(`${ports.length} connections`, async () => {
        for (const port of ports) expect(await send(port)).toBe(true);
        const { stdout } = await node.exec(['ipvsadm', '-Lnc']);
        return (
          stdout.split('\n').filter((line) => line.includes(` ${address}:${SERVICE_PORT} `)).length === ports.length
        );
      });
    };
    await keep([46_001, 46_002, 46_003, 46_004]);
    expect(await send(46_005)).toBe(false);
    await keep([46_001, 46_002]);
    expect(await send(46_005)).toBe(false);
    await keep([46_001]);
    expect(await send(46_005)).toBe(true);
  });

  test('connection-limit below what an endpoint has: nothing is cut, and it is full, some kernels only after one more', async () => {
    const shape = { name: 'lowered', at: 8, endpoints: [endpoint(0, 'a')] };
    const address = await publish(shape, '-s rr');
    const held = [];
    for (let count = 0; count < 3; count++) held.push(await client.hold(address, SERVICE_PORT));
    await publish({ ...shape, annotations: { 'connection-limit': '2' } }, '-s rr');
    await soon('the limit', async () => {
      const { stdout } = await node.exec(['ipvsadm', '-Ln', '-t', `${address}:${SERVICE_PORT}`, '--thresholds']);
      return / 2 +0 /.test(stdout);
    });
    // Linux 6.1.176 accepts one more, and 6.1.192 none.
    const further = await client.hold(address, SERVICE_PORT);
    if (further.first.ok) held.push(further);
    expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject({ ok: false });
    for (const connection of held) {
      expect(await connection.ask()).toMatchObject({ ok: true });
      await connection.close();
    }
  });

  test.each(['v4', 'v6'] as const)(
    'session-affinity-mask: two clients of a network share an endpoint, %s',
    async (family) => {
      const at = family === 'v4' ? 3 : 9;
      const shape = { affinitySeconds: 600, endpoints: [endpoint(0, 'a'), endpoint(1, 'a')] };
      const clients = [bed.client(0), bed.client(1)];
      const ask = async (index: number): Promise<string[]> => {
        const answers: string[] = [];
        for (const from of clients) answers.push(who(await from.probeTcp(clusterAddress(index)[family], SERVICE_PORT)));
        return answers;
      };
      await publish({ ...shape, name: `sticky-${family}`, at }, '-p 600');
      expect((await ask(at)).toSorted()).toEqual(['pod-0-0', 'pod-0-1']);
      // One mask is enough for the clients of its family.
      const mask = family === 'v4' ? '/24' : '/64';
      const annotations = { 'session-affinity-mask': mask };
      await publish({ ...shape, name: `together-${family}`, at: at + 1, annotations }, '-p 600');
      const wanted = family === 'v4' ? '-p 600 -M 255.255.255.0' : '-p 600 -M 64';
      const addresses = [clusterAddress(at + 1).v4, `[${clusterAddress(at + 1).v6}]`];
      await soon(wanted, async () => {
        const { stdout } = await node.exec(['ipvsadm', '-Sn']);
        const masked = stdout.split('\n').filter((line) => line.startsWith('-A') && line.includes(wanted));
        return masked.length === 1 && masked[0]?.includes(` ${addresses[family === 'v4' ? 0 : 1]}:`) === true;
      });
      const [first = '', ...others] = await ask(at + 1);
      expect(first).toMatch(/^pod-0-[01]$/);
      expect([...others, ...(await ask(at + 1))]).toEqual([first, first, first]);
    },
  );

  test('one-packet: the datagrams of one client port go to several endpoints', async () => {
    const shape = {
      name: 'datagrams',
      at: 5,
      protocols: ['UDP'] as const,
      endpoints: [endpoint(0, 'a'), endpoint(1, 'a')],
    };
    const send = async (address: string, sourcePort: number): Promise<readonly string[]> => {
      const answers: string[] = [];
      for (let count = 0; count < 6; count++)
        answers.push(who(await client.probeUdp(address, SERVICE_PORT, { sourcePort, timeoutMs: 300 })));
      return answers;
    };
    // The kernel adds up its counters every 2 s.
    const received = async (address: string): Promise<readonly number[]> => {
      const { stdout } = await node.exec(['ipvsadm', '-Lnu', `${address}:${SERVICE_PORT}`, '--stats', '--exact']);
      return Array.from(stdout.matchAll(/-> \S+ +\d+ +(\d+)/g), ([, packets]) => Number(packets));
    };
    const address = await publish(shape, `-u ${clusterAddress(5).v4}:${SERVICE_PORT} -s rr`);
    expect(new Set(await send(address, 45_000)).size).toBe(1);
    await soon('[0, 6]', async () => inOrder(await received(address)) === '0,6');
    await publish({ ...shape, annotations: { 'one-packet': 'true' } }, '-s rr -o');
    // The kernel forgets the connection before the answer comes, and so does not translate it.
    expect(await send(address, 45_001)).toEqual(Array.from({ length: 6 }, () => 'TIMEOUT'));
    await soon('[3, 9]', async () => inOrder(await received(address)) === '3,9');
    await publish(shape, `-u ${clusterAddress(5).v4}:${SERVICE_PORT} -s rr`);
    await soon('connections again', async () => (await linesOf(address)).every((line) => !line.includes(' -o')));
    expect(new Set(await send(address, 45_002)).size).toBe(1);
  });

  test('annotations that change all the time, good and bad: no connection fails', async () => {
    const shape = { name: 'flapping', at: 11, endpoints: [endpoint(0, 'a')] };
    const address = await publish(shape, '-s rr');
    const held = await client.hold(address, SERVICE_PORT);
    const variants = [
      { scheduler: 'wrr', weights: 'zone=a:3,zone=b:1' },
      { scheduler: 'mh', 'scheduler-flags': 'mh-port' },
      { scheduler: 'no-such', weights: 'zone=a:70000' },
      { scheduler: 'sed', 'connection-limit': '1000/800' },
      {},
    ];
    const clusterIp = clusterAddress(11);
    const endpoints = [endpoint(0, 'a'), endpoint(1, 'a'), endpoint(2, 'b')];
    for (let change = 0; change < 40; change++) {
      const annotations = variants[change % variants.length] ?? {};
      await directory.write(shape.name, serviceObjects({ ...shape, endpoints, annotations, clusterIp }));
      const probe: ProbeRequest = { protocol: 'tcp', target: { address, port: SERVICE_PORT }, timeoutMs: 5_000 };
      const results = await client.probeAll(Array<ProbeRequest>(10).fill(probe), 2);
      expect(results.filter(({ ok }) => !ok)).toEqual([]);
    }
    expect(who(await held.ask())).toBe('pod-0-0');
    await held.close();
  });

  test('drain-timeout of the Service: its connections end, although the node has none', async () => {
    const shape = { name: 'drained', at: 6, annotations: { 'drain-timeout': '3s' } };
    const [stays, goes] = [`${podAddress(0, 1).v4}:${POD_PORT} -m -w 1`, `${podAddress(0, 0).v4}:${POD_PORT} -m -w `];
    const address = await publish({ ...shape, endpoints: [endpoint(0, 'a')] }, `${goes}1`);
    const held = await client.hold(address, SERVICE_PORT);
    const begin = performance.now();
    await publish({ ...shape, endpoints: [endpoint(1, 'a')] }, stays, `${goes}0`);
    expect(who(await held.ask())).toBe('pod-0-0');
    await soon('the real server is gone', async () => (await linesOf(address)).every((line) => !line.includes(goes)));
    expect(performance.now() - begin).toBeGreaterThan(2900);
    expect(await held.ask(1000)).toMatchObject({ ok: false });
  });
});

function inOrder(numbers: readonly number[]): string {
  return numbers.toSorted((a, b) => a - b).join();
}

async function soon(what: string, condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patient(20_000);
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not in time: ${what}`);
    await sleep(50);
  }
}
