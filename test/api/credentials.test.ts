import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import { CertificateAuthority } from '../apiserver/certificates.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, service } from './harness.ts';

const ACCEPTED = 'credentials accepted by the API server again';

let directory: string;
let bed: Bed;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'credentials-'));
});

afterEach(async () => {
  await bed.stop();
  await rm(directory, { recursive: true, force: true });
});

async function start(options: ApiServerOptions): Promise<string> {
  bed = new Bed(options);
  bed.server.apply(service('a', '10.96.0.1'));
  return await bed.server.start();
}

async function writeKubeconfig(
  user: Readonly<Record<string, unknown>>,
  cluster: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const path = join(directory, 'kubeconfig');
  await writeFile(path, kubeconfig({ server: bed.server.url, cluster, user }));
  return path;
}

/** Waits until all three watches are open; after that, nothing more is logged. */
async function followed(): Promise<void> {
  await eventually(() => expect(bed.server.watches.size).toBe(3));
  await eventually(() => expect(bed.view.names('service')).toBe('a'));
}

describe('tokens', () => {
  test('a token in the kubeconfig is sent', async () => {
    await start({ auth: { tokens: { secret: 'system:kube-proxy' } } });
    bed.follow({}, { kubeconfig: await writeKubeconfig({ token: 'secret' }) });
    await followed();
    expect(bed.server.requests.map(({ user }) => user)).toEqual(Array(3).fill('system:kube-proxy'));
  });

  test('a wrong token: one line that says what to check, and recovery without a restart', async () => {
    await start({ auth: { tokens: { secret: 'system:kube-proxy' } } });
    const tokenFile = join(directory, 'token');
    await writeFile(tokenFile, 'expired-secret\n');
    bed.follow({}, { kubeconfig: await writeKubeconfig({ tokenFile: 'token' }) });
    await eventually(() => expect(bed.server.requests.filter(({ code }) => code === 401).length).toBeGreaterThan(8));
    // One error for all three watches.
    const line = `the API server ${bed.server.url} rejected our credentials (401: Unauthorized): check the token or client certificate of the kubeconfig or service account; it is read again on each attempt`;
    expect(bed.log.messages('error')).toEqual([line]);
    await writeFile(tokenFile, 'secret\n');
    await followed();
    await eventually(() => expect(bed.log.messages('info')).toEqual([ACCEPTED]));
    expect(bed.log.messages('warn')).toEqual([]);
    expect(bed.log.messages('error')).toEqual([line]);
    expect(JSON.stringify(bed.log.lines)).not.toContain('secret');
  });

  test('a token that expires during a watch: one line each time, and no new list', async () => {
    await start({ auth: { tokens: { secret: 'u' } } });
    bed.follow({}, { kubeconfig: await writeKubeconfig({ token: 'secret' }) });
    await followed();
    for (const round of [1, 2]) {
      bed.server.auth.setTokens({});
      bed.server.dropConnections();
      const refused = bed.server.requests.length + 9;
      await eventually(() => expect(bed.server.requests.length).toBeGreaterThan(refused));
      expect(bed.log.messages('error')).toHaveLength(round);
      bed.server.auth.setTokens({ secret: 'u' });
      // A watch without changes learns from a bookmark that the server has accepted it.
      await eventually(() => {
        bed.server.eachWatch((watch) => watch.bookmark());
        expect(bed.log.messages('info').filter((line) => line === ACCEPTED)).toHaveLength(round);
      });
    }
    expect(bed.view.types('service')).toEqual(['replaced']);
  });

  test('a token file is read again for each request', async () => {
    await start({ auth: { tokens: { first: 'u' } } });
    const tokenFile = join(directory, 'token');
    await writeFile(tokenFile, 'first');
    const kubeconfig = await writeKubeconfig({ tokenFile });
    const made = ApiClient.create({ kubeconfig, master: '', userAgent: 'test' });
    if (!made.ok) throw new Error(made.error);
    const ask = async (): Promise<unknown> => {
      const { signal } = new AbortController();
      const reply = await made.client.request({ method: 'GET', path: '/api/v1/services', signal });
      if (reply.ok) reply.body.resume();
      return reply.ok && reply.status;
    };
    expect(await ask()).toBe(200);
    bed.server.auth.setTokens({ second: 'u' });
    await writeFile(tokenFile, 'second');
    expect(await ask()).toBe(200);
    made.client.close();
  });

  test('a token that is rotated while we watch', async () => {
    await start({ auth: { tokens: { first: 'u' } } });
    const tokenFile = join(directory, 'token');
    await writeFile(tokenFile, 'first');
    bed.follow({}, { kubeconfig: await writeKubeconfig({ tokenFile }) });
    await followed();
    await writeFile(tokenFile, 'second');
    bed.server.auth.setTokens({ second: 'u' });
    bed.server.dropConnections();
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.view.names('service')).toBe('a b'));
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });
});

describe('an exec plugin that hangs', () => {
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'sleep', args: ['15'] };

  test('an exec plugin that hangs is logged once, and the kubeconfig is read again', async () => {
    await start({ auth: { tokens: { secret: 'u' } } });
    bed.follow({}, { kubeconfig: await writeKubeconfig({ exec }), headersTimeoutMs: 200 });
    // Each watch makes several attempts, each of which takes a fifth of a second.
    await eventually(() => expect(bed.observations.length).toBeGreaterThan(5));
    expect(bed.log.messages('error')).toEqual([
      'failed to load credentials: no result within 0.2 s: check the exec plugin, token file or certificates of the kubeconfig or service account; they are read again on each attempt',
    ]);
    await writeKubeconfig({ token: 'secret' });
    await followed();
    await eventually(() => expect(bed.log.messages('info')).toEqual([ACCEPTED]));
  });

  test('an exec plugin that hangs does not delay stop()', async () => {
    await start({});
    bed.follow({}, { kubeconfig: await writeKubeconfig({ exec }) });
    await sleep(200);
    const before = performance.now();
    await bed.source?.stop();
    expect(performance.now() - before).toBeLessThan(10_000);
    expect(bed.server.requests).toEqual([]);
  });
});

test('a 403 is logged in one line that names the missing permission, and is recovered from', async () => {
  await start({});
  bed.server.auth.deny('watch', 'services');
  bed.follow();
  await eventually(() => expect(bed.server.requests.filter(({ code }) => code === 403).length).toBeGreaterThan(4));
  expect(bed.log.messages('error')).toEqual([
    'not allowed to list and watch services (403: services is forbidden: User "system:anonymous" cannot watch resource "services" in API group "" at the cluster scope): grant our user the verbs list and watch on services by a ClusterRole and a ClusterRoleBinding; retrying',
  ]);
  bed.server.auth.allow('watch', 'services');
  await followed();
});

describe('TLS', () => {
  async function startTls(options: ApiServerOptions = {}): Promise<CertificateAuthority> {
    const authority = await CertificateAuthority.create(directory);
    const { cert, key } = await authority.server();
    await start({ ...options, tls: { cert, key, ca: authority.ca.cert } });
    return authority;
  }

  test('the CA of the kubeconfig, inline or as a file; a token', async () => {
    const { ca } = await startTls({ auth: { tokens: { secret: 'u' } } });
    const path = await writeKubeconfig({ token: 'secret' }, { 'certificate-authority': 'ca.crt' });
    bed.follow({}, { kubeconfig: path });
    await followed();
    await bed.source?.stop();
    const inline = { 'certificate-authority-data': Buffer.from(ca.cert).toString('base64') };
    bed.follow({}, { kubeconfig: await writeKubeconfig({ token: 'secret' }, inline) });
    await followed();
    expect(bed.log.lines).toEqual([]);
  });

  test('a client certificate', async () => {
    const authority = await startTls({ auth: { requireUser: true } });
    const client = await authority.client('system:kube-proxy');
    const path = await writeKubeconfig(
      { 'client-certificate': client.certFile, 'client-key': client.keyFile },
      { 'certificate-authority': authority.ca.certFile },
    );
    bed.follow({}, { kubeconfig: path });
    await followed();
    expect(bed.server.requests[0]?.user).toBe('system:kube-proxy');
  });

  test('a client certificate that is replaced on disk is used for the next connection', async () => {
    const authority = await startTls({ auth: { requireUser: true } });
    const [first, second] = [await authority.client('first'), await authority.client('second')];
    const user = { 'client-certificate': 'our.crt', 'client-key': 'our.key' };
    await writeFile(join(directory, 'our.crt'), first.cert);
    await writeFile(join(directory, 'our.key'), first.key);
    bed.follow({}, { kubeconfig: await writeKubeconfig(user, { 'certificate-authority': authority.ca.certFile }) });
    await followed();
    await writeFile(join(directory, 'our.crt'), second.cert);
    await writeFile(join(directory, 'our.key'), second.key);
    bed.server.dropConnections();
    await eventually(() => expect(bed.server.requests.at(-1)?.user).toBe('second'));
    await followed();
  });

  test('a server with a certificate of another CA is refused, with a reason; insecure-skip-tls-verify accepts it', async () => {
    await startTls();
    await mkdir(join(directory, 'other'));
    const other = await CertificateAuthority.create(join(directory, 'other'), 'other-ca');
    bed.follow({}, { kubeconfig: await writeKubeconfig({}, { 'certificate-authority': other.ca.certFile }) });
    await eventually(() =>
      expect(bed.log.messages('warn').join()).toMatch(/failed to list or watch services .*certificate/),
    );
    expect(bed.server.requests).toEqual([]);
    // The kubeconfig is read again, so fixing it needs no restart.
    await writeKubeconfig({}, { 'insecure-skip-tls-verify': true });
    await followed();
  });

  test('a service account in a pod', async () => {
    const authority = await startTls({ auth: { tokens: { secret: 'system:serviceaccount:kube-system:kube-proxy' } } });
    const account = join(directory, 'var/run/secrets/kubernetes.io/serviceaccount');
    await mkdir(account, { recursive: true });
    await writeFile(join(account, 'ca.crt'), authority.ca.cert);
    await writeFile(join(account, 'token'), 'secret');
    process.env['KUBERNETES_SERVICE_HOST'] = '127.0.0.1';
    process.env['KUBERNETES_SERVICE_PORT'] = String(bed.server.port);
    try {
      const created = ApiClient.create({
        kubeconfig: '',
        master: '',
        serviceAccountRoot: directory,
        userAgent: 'test',
      });
      if (!created.ok) throw new Error(created.error);
      const { signal } = new AbortController();
      const reply = await created.client.request({ method: 'GET', path: '/api/v1/services', signal });
      expect(reply).toMatchObject({ ok: true, status: 200 });
      if (reply.ok) reply.body.resume();
      created.client.close();
    } finally {
      delete process.env['KUBERNETES_SERVICE_HOST'];
      delete process.env['KUBERNETES_SERVICE_PORT'];
    }
    expect(bed.server.requests.at(-1)?.user).toBe('system:serviceaccount:kube-system:kube-proxy');
  });
});

test('POST sends an event as JSON', async () => {
  await start({});
  const created = ApiClient.create({ kubeconfig: '', master: bed.server.url, userAgent: 'test' });
  if (!created.ok) throw new Error(created.error);
  const event = { apiVersion: 'events.k8s.io/v1', kind: 'Event', metadata: { name: 'node-1.1' }, reason: 'Starting' };
  const reply = await created.client.request({
    method: 'POST',
    path: '/apis/events.k8s.io/v1/namespaces/default/events',
    signal: AbortSignal.timeout(2_000),
    body: { type: 'application/json', text: JSON.stringify(event) },
  });
  expect(reply).toMatchObject({ ok: true, status: 201 });
  if (reply.ok) reply.body.resume();
  created.client.close();
  expect(bed.server.objects('events', 'events.k8s.io/v1')).toMatchObject([{ reason: 'Starting' }]);
});
