import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { TEST_MODE } from '../support/mode.ts';
import { daemonArgv, querySocketOf, startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, type ServiceShape, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const NODE_PORT = 30_500;
const TAKEN_PORT = 30_501;
const METRICS_PORT = 10_249;

const WEB: ServiceShape = {
  name: 'web',
  protocols: ['TCP', 'UDP'],
  clusterIp: clusterAddress(1),
  nodePort: NODE_PORT,
  endpoints: [0, 1].map((pod) => ({ addresses: podAddress(0, pod), node: 0 })),
};
const TAKEN: ServiceShape = { ...WEB, name: 'taken', clusterIp: clusterAddress(2), nodePort: TAKEN_PORT };

/** A registry with one blob, and a server at the far end of a tunnel, which sends back what it gets. */
const REGISTRY: ServiceShape = service('registry', 3, 30_502, 8_090);
const TUNNEL: ServiceShape = service('tunnel', 4, 30_503, 8_091);
const BLOB_BYTES = 32 * 1024 * 1024;
const SERVERS = `
import http.server, os, socketserver, tempfile, threading
os.chdir(tempfile.mkdtemp())
open('blob', 'wb').write(b'layer' * (${BLOB_BYTES} // 5))
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(http.server.ThreadingHTTPServer):
    address_family = 10
http.server.SimpleHTTPRequestHandler.protocol_version = 'HTTP/1.1'
threading.Thread(target=Server(('::', 8091), Echo).serve_forever).start()
web = Server(('::', 8090), http.server.SimpleHTTPRequestHandler)
print('begun', flush=True)
web.serve_forever()
`;
/** Sends in both directions at once, ends its own one, and counts what comes back. */
const STREAM = `
import socket, sys, threading
peer = socket.create_connection((sys.argv[1], ${TUNNEL.nodePort}))
def send():
    for _ in range(256):
        peer.sendall(bytes(65536))
    peer.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
count = 0
while data := peer.recv(65536):
    count += len(data)
print(count)
`;

/** Rules serve 127.0.0.1 in iptables mode; elsewhere the engine does. */
const ENGINE_PORTS = TEST_MODE === 'iptables' ? 4 : 8;

const PLACES = (['tcp', 'udp'] as const).flatMap((protocol) =>
  ['127.0.0.1', '::1'].map((address) => ({ protocol, address })),
);

function service(name: string, index: number, nodePort: number, targetPort: number): ServiceShape {
  const endpoints = [{ addresses: podAddress(0, 0), node: 0 }];
  return { name, clusterIp: clusterAddress(index), nodePort, targetPort, endpoints };
}

/** Node ports at localhost, where nodePortAddresses asks for them. */
describe('node ports at localhost', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await directory.write('web', serviceObjects(WEB));
    await directory.write('uses', [...serviceObjects(REGISTRY), ...serviceObjects(TUNNEL)]);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    await Promise.all(
      [0, 1].flatMap((index) => [bed.pod(0, index).serveTcp(POD_PORT), bed.pod(0, index).serveUdp(POD_PORT)]),
    );
    const servers = await bed.pod(0, 0).spawn(['python3', '-c', SERVERS]);
    await servers.waitForOutput(/begun/, 30_000);
    daemon = await startDaemon(node, [
      `--manifests=${directory.path}`,
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      '--nodeport-addresses=primary,localhost',
      `--metrics-bind-address=127.0.0.1:${METRICS_PORT}`,
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function answerers(protocol: 'tcp' | 'udp', address: string, port = NODE_PORT): Promise<Set<string>> {
    const results = [];
    // Rules choose at random.
    const probes = TEST_MODE === 'iptables' ? 16 : 6;
    for (let count = 0; count < probes; count++) results.push(await node.probe(protocol, address, port));
    return new Set(results.map((result) => (result.ok ? result.answeredBy : result.code)));
  }

  /** Repeats a check until it passes. */
  async function eventually(check: () => Promise<void>): Promise<void> {
    for (let tries = 0; tries < 40; tries++) {
      try {
        return await check();
      } catch {
        await sleep(250);
      }
    }
    await check();
  }

  test.each(PLACES)('$protocol at $address reaches each endpoint', async ({ protocol, address }) => {
    await eventually(async () => expect(await answerers(protocol, address)).toEqual(new Set(['pod-0-0', 'pod-0-1'])));
  });

  test.each(['127.0.0.1', '[::1]'])(
    'a blob of a registry at %s arrives whole, after a check, on one connection',
    async (host) => {
      const at = `http://${host}:${REGISTRY.nodePort}`;
      const print = '%{http_code} %{num_connects} %{size_download}\\n';
      const curl = ['curl', '-gsS', '-m', '60', '-w', print, '-o', '/dev/null', '-I', `${at}/blob`];
      const { stdout } = await node.exec([...curl, '--next', ...curl.slice(1, 7), '/dev/null', `${at}/blob`]);
      expect(stdout).toBe(`200 1 0\n200 0 ${BLOB_BYTES - (BLOB_BYTES % 5)}\n`);
    },
  );

  test.each(['127.0.0.1', '::1'])(
    'a tunnel to %s carries both directions at once, and each ends by itself',
    async (host) => {
      const { stdout } = await node.exec(['python3', '-c', STREAM, host]);
      expect(Number(stdout)).toBe(16 * 1024 * 1024);
    },
  );

  test('the node port at the address of the node still works', async () => {
    const result = await bed.client(0).probeTcp(node.addresses.v4, NODE_PORT);
    expect(result).toMatchObject({ ok: true, sourceSeen: expect.any(String) });
  });

  test('another host cannot reach loopback addresses of the node', async () => {
    const client = bed.client(0);
    await client.sysctl({ 'net.ipv4.conf.all.route_localnet': 1 });
    await client.ip([
      'route del local 127.0.0.0/8 dev lo table local',
      `route add 127.66.0.0/16 via ${node.addresses.v4}`,
    ]);
    const echo = await node.serveTcp(6_000, { address: '127.66.0.1' });
    const result = await client.probeTcp('127.66.0.1', 6_000, { timeoutMs: 500 });
    await echo.close();
    expect(result).toEqual({ ok: false, code: 'TIMEOUT' });
  });

  test('status and metrics say so', async () => {
    const ask = async (...words: string[]): Promise<string> => {
      const [program = '', ...argv] = daemonArgv(node, []);
      const bundle = argv.findIndex((word) => word.endsWith('.mjs'));
      const question = [...argv.slice(0, bundle + 1), ...words, `--query-socket=${querySocketOf(node)}`];
      return (await node.exec([program, ...question])).stdout;
    };
    expect(await ask('status')).toMatch(new RegExp(`user space +${ENGINE_PORTS} ports, \\d+ connections`));
    const { stdout } = await node.exec(['curl', '-s', `http://127.0.0.1:${METRICS_PORT}/metrics`]);
    expect(stdout).toContain(`kubeipvs_userspace_listeners{state="listening"} ${ENGINE_PORTS}`);
    expect(stdout).toMatch(/kubeipvs_userspace_bytes_total\{direction="out"\} [1-9]/);
  });

  test('a port of another program is named, and served when it is free', async () => {
    const other = await node.serveTcp(TAKEN_PORT, { address: '::1', name: 'other' });
    await directory.write('taken', serviceObjects(TAKEN));
    await daemon.waitForOutput(
      /the node port TCP \[::1\]:30501 of default\/taken:tcp is not served: \S+ \(pid \d+\) has the port/,
      30_000,
    );
    expect(await answerers('tcp', '::1', TAKEN_PORT)).toEqual(new Set(['other']));
    expect(await answerers('udp', '::1', TAKEN_PORT)).toEqual(new Set(['pod-0-0', 'pod-0-1']));
    await other.close();
    await eventually(async () =>
      expect(await answerers('tcp', '::1', TAKEN_PORT)).toEqual(new Set(['pod-0-0', 'pod-0-1'])),
    );
  });

  test('an endpoint that leaves gets no new connection, and a deleted Service closes its ports', async () => {
    await directory.write('web', serviceObjects({ ...WEB, endpoints: WEB.endpoints.slice(0, 1) }));
    await eventually(async () => expect(await answerers('tcp', '::1')).toEqual(new Set(['pod-0-0'])));
    await directory.write('web', []);
    for (const { protocol, address } of PLACES) {
      await eventually(async () => expect(await answerers(protocol, address)).toEqual(new Set(['ECONNREFUSED'])));
    }
  });
});
