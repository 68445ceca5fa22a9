import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { JsonObject } from '../apiserver/json-object.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { ApiLink, CLUSTER_IP } from './api-link.ts';

jest.setTimeout(240_000);

const PODS = ['10.201.0.10', '10.201.0.11'] as const;
/** Makes health go stale within 4 s, if it does. */
const FLAGS = ['--ipvs-sync-period=2s', '--ipvs-min-sync-period=0s', '-v=1'];

const KUBERNETES_IP = '10.202.0.1';

/** The service of the API server and its slice, with a pod in the place of the server. */
function kubernetes(address: string): readonly [JsonObject, JsonObject] {
  const metadata = { name: 'kubernetes', namespace: 'default' };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        clusterIP: KUBERNETES_IP,
        clusterIPs: [KUBERNETES_IP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'https', port: 443, protocol: 'TCP' }],
      },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'kubernetes' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
      ports: [{ name: 'https', port: 8080, protocol: 'TCP' }],
    },
  ];
}

/**
 * The bundled daemon and an API server over TLS: credentials of every kind, and what becomes of them and of the
 * server.
 */
describe('the daemon and its API server', () => {
  let bed: Bed;
  let node: Namespace;
  let api: ApiLink;
  let daemon: LongProcess | undefined;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
    api = await ApiLink.create(node);
  });

  afterEach(async () => {
    await daemon?.stop(10_000);
    daemon = undefined;
    api.server.faults.clear();
    api.server.requests.length = 0;
    api.setEndpoints(PODS.slice(0, 1));
  });

  afterAll(async () => {
    await api[Symbol.asyncDispose]();
    await bed[Symbol.asyncDispose]();
  });

  async function realServers(): Promise<readonly string[]> {
    const { stdout } = await node.exec(['ipvsadm', '-Sn']);
    const found = stdout.matchAll(/^-a -t 10\.202\.0\.10:80 -r (\S+):8080 -m -w 1$/gm);
    return Array.from(found, ([, address = '']) => address).toSorted();
  }

  /** The API says so, and in time the kernel does. */
  async function follows(addresses: readonly string[], withinMs = 30_000): Promise<void> {
    api.setEndpoints(addresses);
    await kernelHas(addresses, withinMs);
  }

  async function kernelHas(addresses: readonly string[], withinMs = 30_000): Promise<void> {
    const deadline = Date.now() + withinMs;
    while ((await realServers()).join() !== addresses.join()) {
      if (Date.now() > deadline) {
        throw new Error(`in the kernel: ${(await realServers()).join()}; log of the daemon:\n${daemon?.output}`);
      }
      await sleep(50);
    }
  }

  async function run(user: Readonly<Record<string, unknown>>): Promise<LongProcess> {
    daemon = await startDaemon(node, [...FLAGS, `--kubeconfig=${await api.kubeconfig(user)}`]);
    return daemon;
  }

  async function livez(): Promise<string> {
    const argv = ['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', 'http://127.0.0.1:10256/livez'];
    return (await node.exec(argv)).stdout;
  }

  async function everyoneRefused(from: number): Promise<void> {
    const deadline = Date.now() + 30_000;
    while (api.server.requests.slice(from).filter(({ code }) => code === 401).length < 9) {
      if (Date.now() > deadline) throw new Error('the daemon does not try again');
      await sleep(50);
    }
  }

  function usersSince(from: number): ReadonlySet<string> {
    return new Set(api.server.requests.slice(from).map(({ user }) => user));
  }

  test('authenticates with the bearer token of a kubeconfig', async () => {
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    const { output } = await run({ token: 'secret' });
    expect(await realServers()).toEqual([PODS[0]]);
    await follows(PODS);
    await follows([PODS[1]]);
    expect(usersSince(0)).toEqual(new Set(['system:kube-proxy']));
    expect(output).not.toContain('secret');
    const started = api.server.objects('events', 'events.k8s.io/v1').map(({ reason }) => reason);
    expect(started).toContain('Starting');
  });

  test('authenticates with the client certificate of a kubeconfig', async () => {
    api.server.auth.setTokens({});
    const { certFile, keyFile } = await api.client('system:kube-proxy-by-certificate');
    await run({ 'client-certificate': certFile, 'client-key': keyFile });
    await follows(PODS);
    expect(usersSince(0)).toEqual(new Set(['system:kube-proxy-by-certificate']));
  });

  test('uses a service account token after it was rotated on disk', async () => {
    const account = 'system:serviceaccount:kube-system:kube-proxy';
    api.server.auth.setTokens({ first: account });
    const secrets = await api.serviceAccount('first');
    // `ip netns exec` has a separate mount namespace: no other process sees this mount.
    const mounted = 'mkdir -p /var/run/secrets && mount --bind "$0" /var/run/secrets && exec "$@"';
    const argv = ['sh', '-c', mounted, secrets, ...daemonArgv(node, FLAGS)];
    daemon = await node.spawn(argv, api.environment());
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    await follows(PODS);
    await api.rotate('second');
    const from = api.server.requests.length;
    api.server.auth.setTokens({ second: account });
    api.server.dropConnections();
    await follows([PODS[1]]);
    expect(api.server.requests.slice(from).some(({ user }) => user === account)).toBe(true);
    expect(daemon.exit).toBeUndefined();
  });

  test('runs the exec plugin again when its token is rejected', async () => {
    api.server.auth.setTokens({ 'one-hour': 'by-plugin' });
    const [plugin, token] = [path.join(api.folder, 'plugin'), path.join(api.folder, 'plugin-token')];
    await writeFile(token, 'one-hour');
    const script = [
      '#!/bin/sh',
      'read -r token <"$TOKEN_FILE"',
      `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$token"`,
    ];
    await writeFile(plugin, `${script.join('\n')}\n`);
    await chmod(plugin, 0o755);
    const apiVersion = 'client.authentication.k8s.io/v1';
    const env = [{ name: 'TOKEN_FILE', value: token }];
    await run({ exec: { apiVersion, command: plugin, env, interactiveMode: 'Never' } });
    await follows(PODS);
    await writeFile(token, 'next-hour');
    const from = api.server.requests.length;
    api.server.auth.setTokens({ 'next-hour': 'by-plugin' });
    api.server.dropConnections();
    await follows([PODS[1]]);
    expect(usersSince(from)).toContain('by-plugin');
  });

  test('default/kubernetes is reachable while the lists are still open; nothing is deleted before they are complete', async () => {
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    const [apiService, apiSlice] = kubernetes(PODS[1]);
    api.server.apply(apiService);
    api.server.apply(apiSlice);
    // What an earlier run left: of a service that is gone, and of one whose endpoint has changed.
    await node.exec(['ipvsadm', '-C']);
    await node.exec(['ipvsadm', '-A', '-t', `${CLUSTER_IP}:80`, '-s', 'rr']);
    await node.exec(['ipvsadm', '-a', '-t', `${CLUSTER_IP}:80`, '-r', '10.201.0.99:8080', '-m']);
    const left = (await node.exec(['ipvsadm', '-Sn'])).stdout;
    for (const resource of ['services', 'endpointslices']) {
      api.server.faults.add({ verb: 'watch', resource, fault: { type: 'stall' } });
    }
    daemon = await node.spawn(
      daemonArgv(node, [...FLAGS, `--kubeconfig=${await api.kubeconfig({ token: 'secret' })}`]),
    );
    await daemon.waitForOutput(/default\/kubernetes is served; listing the other services/, 60_000);
    expect(await bed.client(0).probeTcp(KUBERNETES_IP, 443)).toMatchObject({ ok: true });
    // From the node itself too: the rules and sets that masquerade its connections already exist.
    expect(await node.probeTcp(KUBERNETES_IP, 443)).toMatchObject({ ok: true });
    const { stdout } = await node.exec(['ipvsadm', '-Sn']);
    expect(
      stdout
        .split('\n')
        .filter((line) => line.includes(CLUSTER_IP))
        .join('\n'),
    ).toBe(left.trim());
    expect(daemon.output).not.toContain('initial sync complete');
    api.server.faults.clear();
    api.server.dropConnections();
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    await kernelHas(PODS.slice(0, 1));
    expect(await bed.client(0).probeTcp(CLUSTER_IP, 80)).toMatchObject({ ok: true });
    api.server.delete(apiService);
    api.server.delete(apiSlice);
  });

  test('when packets to the API server are dropped, the first log line names its address and the failed step', async () => {
    const dropped = ['-p', 'tcp', '--dport', String(api.port), '-j', 'DROP'];
    await node.exec(['iptables', '-A', 'OUTPUT', ...dropped]);
    const flags = [...FLAGS, `--kubeconfig=${await api.kubeconfig({ token: 'secret' })}`];
    daemon = await node.spawn(daemonArgv(node, flags));
    await daemon.waitForOutput(/failed to list or watch/, 60_000);
    const [first] = daemon.output
      .split('\n')
      .filter((line) => /^[EW]/.test(line) && !line.includes('nodePortAddresses'));
    expect(first).toMatch(
      /failed to list or watch nodes at the API server https:\/\/10\.210\.0\.1:\d+: no TCP connection within 8 s, and no refusal/,
    );
    // It is not known yet whether the Node exists.
    expect(daemon.output).not.toMatch(/no Node named|reports no address/);
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    await node.exec(['iptables', '-D', 'OUTPUT', ...dropped]);
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    await kernelHas(PODS.slice(0, 1));
  });

  test('an unknown node name is reported in the log', async () => {
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    const flags = [...FLAGS, '--hostname-override=nobody', `--kubeconfig=${await api.kubeconfig({ token: 'secret' })}`];
    daemon = await node.spawn(daemonArgv(node, flags));
    await daemon.waitForOutput(
      /there is no Node named nobody in the cluster; waiting 30 s for it: check --host/,
      60_000,
    );
    await daemon.waitForOutput(/initial sync complete/, 60_000);
    const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10256/healthz']);
    expect(JSON.parse(stdout)).toMatchObject({
      healthy: true,
      nodeEligible: false,
      reason: 'no Node named "nobody" has been seen: check --hostname-override',
    });
  });

  test('expired credentials are logged in one line, and replaced without a restart', async () => {
    api.server.auth.setTokens({ good: 'system:kube-proxy' });
    const tokenFile = path.join(api.folder, 'token');
    await writeFile(tokenFile, 'good');
    const { pid } = await run({ tokenFile });
    const from = api.server.requests.length;
    api.server.auth.setTokens({ better: 'system:kube-proxy' });
    api.server.dropConnections();
    await everyoneRefused(from);
    expect(await livez()).toBe('200');
    expect(await bed.client(0).probeTcp(CLUSTER_IP, 80)).toMatchObject({ ok: true });
    const said = daemon?.output.split('\n').filter((line) => line.includes('rejected our credentials')) ?? [];
    // One for all that is watched: Services, EndpointSlices, our Node.
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(/^E.*\(401: Unauthorized\): check the token or client certificate/);
    await writeFile(tokenFile, 'better');
    await follows(PODS);
    expect(daemon).toMatchObject({ pid, exit: undefined });
    expect(daemon?.output).not.toMatch(/better|good/);
  });

  test('while the API server is stopped the data plane serves and /livez stays 200; its new state is followed after its return', async () => {
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    await run({ token: 'secret' });
    await follows(PODS);
    await api.server.stop();
    api.setEndpoints([PODS[1]]);
    const load = bed.client(0).load('tcp', CLUSTER_IP, 80, { perSecond: 10, durationMs: 8_000, timeoutMs: 3_000 });
    for (let second = 0; second < 8; second++) {
      expect(await livez()).toBe('200');
      await sleep(800);
    }
    expect(await load).toMatchObject({ sent: 80, failures: {} });
    expect(await realServers()).toEqual(PODS);
    await api.startAgain();
    await kernelHas([PODS[1]]);
    await follows(PODS);
  });

  test('recovers from an expired resource version (410) and from a stalled watch', async () => {
    api.server.auth.setTokens({ secret: 'system:kube-proxy' });
    await run({ token: 'secret' });
    api.server.dropConnections();
    api.setEndpoints(PODS);
    api.server.compact();
    await kernelHas(PODS);
    // The request for the next watch is taken and never answered; after a minute the daemon gives it up.
    api.server.faults.add({ verb: 'watch', resource: 'endpointslices', fault: { type: 'stall' } });
    const from = api.server.requests.length;
    api.server.dropConnections();
    await follows([PODS[1]], 120_000);
    const watches = api.server.requests
      .slice(from)
      .filter(({ verb, resource }) => `${verb} ${resource}` === 'watch endpointslices');
    expect(watches.map(({ code }) => code).slice(0, 2)).toEqual([0, 200]);
    expect(await livez()).toBe('200');
  });
});
