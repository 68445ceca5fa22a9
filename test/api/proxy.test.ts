import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { CertificateAuthority } from '../apiserver/certificates.ts';
import { ConnectProxy } from '../apiserver/connect-proxy.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { SocksProxy } from '../apiserver/socks-proxy.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, service } from './harness.ts';

let directory: string;
let authority: CertificateAuthority;
let proxy: ConnectProxy;
let proxyAddress: string;
let bed: Bed;

const CLEAN = { HTTPS_PROXY: undefined, HTTP_PROXY: undefined, NO_PROXY: undefined };
const saved = new Map<string, string | undefined>();

function setEnvironment(values: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(values)) {
    for (const each of [name, name.toLowerCase()]) {
      if (!saved.has(each)) saved.set(each, process.env[each]);
      delete process.env[each];
    }
    if (value !== undefined) process.env[name] = value;
  }
}

beforeEach(async () => {
  setEnvironment(CLEAN);
  directory = await mkdtemp(join(tmpdir(), 'proxy-'));
  authority = await CertificateAuthority.create(directory);
  const { cert, key } = await authority.server();
  bed = new Bed({ tls: { cert, key, ca: authority.ca.cert }, auth: { tokens: { secret: 'system:kube-proxy' } } });
  await bed.server.start();
  bed.server.apply(service('a', '10.96.0.1'));
  proxy = new ConnectProxy();
  proxyAddress = await proxy.start();
});

afterEach(async () => {
  await bed.stop();
  await proxy.stop();
  await rm(directory, { recursive: true, force: true });
  for (const [name, value] of saved) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  saved.clear();
});

async function writeKubeconfig(cluster: Readonly<Record<string, unknown>>, server = bed.server.url): Promise<string> {
  const path = join(directory, 'kubeconfig');
  const trust = { 'certificate-authority': authority.ca.certFile, ...cluster };
  await writeFile(path, kubeconfig({ server, cluster: trust, user: { token: 'secret' } }));
  return path;
}

async function follow(cluster: Readonly<Record<string, unknown>>, server = bed.server.url): Promise<void> {
  bed.follow({}, { kubeconfig: await writeKubeconfig(cluster, server) });
}

async function followed(): Promise<void> {
  await eventually(() => expect(bed.server.watches.size).toBe(3));
  await eventually(() => expect(bed.view.names('service')).toBe('a'));
}

const target = (): string => new URL(bed.server.url).host;

describe('proxy-url of the kubeconfig', () => {
  test('every connection is a tunnel, with TLS to the server inside', async () => {
    await follow({ 'proxy-url': `http://${proxyAddress}` });
    await followed();
    expect(new Set(proxy.asked)).toEqual(new Set([`CONNECT ${target()}`]));
    expect(bed.server.requests.map(({ user }) => user)).toEqual(Array(3).fill('system:kube-proxy'));
    expect(bed.log.lines).toEqual([]);
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.view.names('service')).toBe('a b'));
  });

  test('overrides NO_PROXY, and applies to loopback too', async () => {
    setEnvironment({ HTTPS_PROXY: 'http://127.0.0.1:1', NO_PROXY: '*' });
    await follow({ 'proxy-url': proxyAddress });
    await followed();
    expect(proxy.asked).not.toEqual([]);
  });

  test('lost connections are opened again through the proxy', async () => {
    await follow({ 'proxy-url': `http://${proxyAddress}` });
    await followed();
    const before = proxy.asked.length;
    bed.server.dropConnections();
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.view.names('service')).toBe('a b'));
    expect(proxy.asked.length).toBeGreaterThan(before);
  });

  test('user and password of the URL are sent to the proxy only, and never logged', async () => {
    proxy.authorization = `Basic ${Buffer.from('node:p@ss').toString('base64')}`;
    await follow({ 'proxy-url': `http://node:wrong-secret@${proxyAddress}` });
    await eventually(() =>
      expect(bed.log.messages('warn').join()).toContain(
        `proxy ${proxyAddress}: CONNECT to ${target()} refused: 407 Proxy Authentication Required`,
      ),
    );
    expect(JSON.stringify(bed.log.lines)).not.toContain('wrong-secret');
    // The kubeconfig is read again, so fixing it needs no restart.
    await writeKubeconfig({ 'proxy-url': `http://node:p%40ss@${proxyAddress}` });
    await followed();
  });

  test('a certificate of another authority is refused inside the tunnel too', async () => {
    const other = await CertificateAuthority.create(await mkdtemp(join(directory, 'other-')), 'other-ca');
    await follow({ 'proxy-url': `http://${proxyAddress}`, 'certificate-authority': other.ca.certFile });
    await eventually(() =>
      expect(bed.log.messages('warn').join()).toMatch(/failed to list or watch services .*certificate/),
    );
    expect(bed.server.requests).toEqual([]);
  });

  test('an unreachable proxy is named in the warning', async () => {
    await follow({ 'proxy-url': 'http://127.0.0.1:1' });
    await eventually(() => expect(bed.log.messages('warn').join()).toMatch(/proxy 127\.0\.0\.1:1: .*ECONNREFUSED/));
  });

  test('a proxy that never answers does not delay stop()', async () => {
    proxy.silent = true;
    await follow({ 'proxy-url': `http://${proxyAddress}` });
    await eventually(() => expect(proxy.asked).toHaveLength(3));
    const before = performance.now();
    await bed.source?.stop();
    bed.client?.close();
    await eventually(() => expect(proxy.open).toBe(0));
    // stop() must not wait for the timeout of a proxy that does not respond.
    expect(performance.now() - before).toBeLessThan(10_000);
  });

  test('a TLS proxy with a certificate of the CA of the kubeconfig', async () => {
    const { cert, key } = await authority.server('proxy');
    const secured = new ConnectProxy({ cert, key });
    try {
      await follow({ 'proxy-url': `https://${await secured.start()}` });
      await followed();
      expect(new Set(secured.asked)).toEqual(new Set([`CONNECT ${target()}`]));
      expect(bed.log.lines).toEqual([]);
    } finally {
      await bed.source?.stop();
      bed.client?.close();
      await secured.stop();
    }
  });

  test('a TLS proxy with a certificate of an unknown CA is refused and named in the warning', async () => {
    const other = await CertificateAuthority.create(await mkdtemp(join(directory, 'other-')), 'other-ca');
    const { cert, key } = await other.server('proxy');
    const secured = new ConnectProxy({ cert, key });
    try {
      const address = await secured.start();
      await follow({ 'proxy-url': `https://${address}` });
      await eventually(() =>
        expect(bed.log.messages('warn').join()).toMatch(new RegExp(`proxy ${address}: .*certificate`)),
      );
      expect(secured.asked).toEqual([]);
      expect(bed.server.requests).toEqual([]);
    } finally {
      await bed.source?.stop();
      bed.client?.close();
      await secured.stop();
    }
  });

  test.each(['socks5', 'socks5h', 'socks'])('a SOCKS proxy (%s), with TLS to the server inside', async (scheme) => {
    const socks = new SocksProxy();
    try {
      await follow({ 'proxy-url': `${scheme}://${await socks.start()}` });
      await followed();
      expect(new Set(socks.asked)).toEqual(new Set([target()]));
      expect(bed.server.requests.map(({ user }) => user)).toEqual(Array(3).fill('system:kube-proxy'));
      expect(bed.log.lines).toEqual([]);
    } finally {
      await bed.source?.stop();
      bed.client?.close();
      await socks.stop();
    }
  });

  test('an invalid URL is a startup error that does not show the URL', async () => {
    await expect(follow({ 'proxy-url': 'ftp://user:hidden@proxy' })).rejects.toThrow(
      /^proxy-url of the kubeconfig is not a valid proxy URL: write http:\/\/host:port$/,
    );
  });
});

describe('the environment', () => {
  test('loopback is never proxied', async () => {
    setEnvironment({ HTTPS_PROXY: `http://${proxyAddress}` });
    await follow({});
    await followed();
    await sleep(50);
    expect(proxy.asked).toEqual([]);
  });

  // The host is not "localhost", so the proxy must resolve the name, which fails.
  test('HTTPS_PROXY is used for other hosts, except those in NO_PROXY', async () => {
    setEnvironment({ HTTPS_PROXY: `http://${proxyAddress}` });
    const name = `api.${hostname()}.invalid`;
    await follow({}, `https://${name}:6443`);
    await eventually(() => expect(proxy.asked).toContain(`CONNECT ${name}:6443`));
    await bed.source?.stop();
    bed.client?.close();
    // Wait for requests that were in flight at stop().
    await sleep(100);
    const asked = proxy.asked.length;
    setEnvironment({ NO_PROXY: '.invalid' });
    await follow({}, `https://${name}:6443`);
    await eventually(() => expect(bed.log.messages('warn').join()).toMatch(/ENOTFOUND|EAI_AGAIN/));
    expect(proxy.asked).toHaveLength(asked);
  });
});

test('a server without TLS is requested by its absolute URL', async () => {
  const plain = new Bed();
  await plain.server.start();
  plain.server.apply(service('a', '10.96.0.1'));
  const path = join(directory, 'plain');
  await writeFile(path, kubeconfig({ server: plain.server.url, cluster: { 'proxy-url': proxyAddress }, user: {} }));
  plain.follow({}, { kubeconfig: path });
  try {
    await eventually(() => expect(plain.view.names('service')).toBe('a'));
    expect(proxy.asked[0]).toMatch(new RegExp(`^GET ${plain.server.url}/api`));
  } finally {
    await plain.stop();
  }
});
