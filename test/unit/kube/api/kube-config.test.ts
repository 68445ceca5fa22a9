import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { loadKubeConfig } from '../../../../src/kube/kubeconfig/kube-config.ts';

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
  path = join(directory, 'config');
});

afterEach(() => rm(directory, { recursive: true, force: true }));

function document(changes: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    clusters: [{ name: 'c', cluster: { server: 'https://192.0.2.1:6443' } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
    ...changes,
  });
}

async function errorOf(text: string | undefined, master = ''): Promise<string> {
  if (text !== undefined) await writeFile(path, text);
  const loaded = loadKubeConfig({ kubeconfig: path, master });
  return loaded.ok ? '' : loaded.error;
}

describe('loadKubeConfig', () => {
  test('a kubeconfig; --master replaces its server', async () => {
    await writeFile(path, document());
    expect(loadKubeConfig({ kubeconfig: path, master: '' })).toMatchObject({
      ok: true,
      cluster: { server: 'https://192.0.2.1:6443' },
    });
    expect(loadKubeConfig({ kubeconfig: path, master: 'https://192.0.2.2/' })).toMatchObject({
      ok: true,
      cluster: { server: 'https://192.0.2.2' },
    });
    expect(loadKubeConfig({ kubeconfig: '', master: '192.0.2.3:8080' })).toMatchObject({
      ok: true,
      cluster: { server: 'http://192.0.2.3:8080' },
    });
  });

  test('the server of another kubeconfig, with our credentials; --master is stronger, and a missing file is an error', async () => {
    const user = { 'client-certificate': 'cert', token: 'secret-of-the-kubelet' };
    const kubelet = join(directory, 'kubelet.conf');
    const cluster = { server: 'https://127.0.0.1:6443', 'tls-server-name': 'api', 'certificate-authority': 'its-ca' };
    await writeFile(kubelet, document({ clusters: [{ name: 'c', cluster }], users: [{ name: 'u', user }] }));
    await writeFile(path, document({ users: [{ name: 'u', user: { token: 'ours' } }] }));
    const loaded = loadKubeConfig({ kubeconfig: path, master: '', masterKubeconfig: kubelet });
    if (!loaded.ok) throw new Error(loaded.error);
    expect(loaded.cluster).toEqual({
      name: 'c',
      server: 'https://127.0.0.1:6443',
      tlsServerName: 'api',
      skipTLSVerify: false,
    });
    expect(loaded.config.getCurrentUser()).toEqual({ name: 'u', token: 'ours' });
    expect(loadKubeConfig({ kubeconfig: path, master: 'https://192.0.2.2', masterKubeconfig: kubelet })).toMatchObject({
      ok: true,
      cluster: { server: 'https://192.0.2.2' },
    });
    await rm(kubelet);
    const missing = loadKubeConfig({ kubeconfig: path, master: '', masterKubeconfig: kubelet });
    expect(missing.ok ? '' : missing.error).toContain('check --master-kubeconfig');
  });

  test('a context without a user is anonymous, and keeps the CA', async () => {
    await writeFile(join(directory, 'ca'), 'PEM');
    await writeFile(
      path,
      document({
        clusters: [{ name: 'c', cluster: { server: 'https://192.0.2.1', 'certificate-authority': 'ca' } }],
        contexts: [{ name: 'x', context: { cluster: 'c' } }],
      }),
    );
    const loaded = loadKubeConfig({ kubeconfig: path, master: '' });
    if (!loaded.ok) throw new Error(loaded.error);
    const options: { ca?: unknown } = {};
    await loaded.config.applyToHTTPSOptions(options);
    expect(options.ca).toEqual(Buffer.from('PEM'));
  });

  test.each([
    ['a missing file', undefined, /failed to read kubeconfig .*: it does not exist; check --kubeconfig/],
    ['no YAML', '{', /kubeconfig .* is not valid: /],
    ['an empty file', '', /kubeconfig .* (is not valid|has no current-context)/],
    ['a list', '[]', /has no current-context/],
    [
      'no current context',
      document({ 'current-context': '' }),
      /has no current-context: choose one with kubectl config use-context/,
    ],
    ['an unknown context', document({ 'current-context': 'y' }), /has no context "y"/],
    ['an unknown cluster', document({ clusters: [] }), /has no cluster "c", which context "x" names/],
    ['an unknown user', document({ users: [] }), /has no user "u", which context "x" names/],
    [
      'a cluster without server',
      document({ clusters: [{ name: 'c', cluster: {} }] }),
      /has no server in cluster "c": set it to https/,
    ],
    [
      'a server that is no URL',
      document({ clusters: [{ name: 'c', cluster: { server: 'ftp://x' } }] }),
      /is not a valid API server URL/,
    ],
  ])('%s: an error that says what to do', async (_name, text, expected) => {
    const error = await errorOf(text);
    expect(error).toMatch(expected);
    expect(error).not.toContain('\n');
  });

  test('outside of a Pod and without flags, there is no configuration', () => {
    const loaded = loadKubeConfig({ kubeconfig: '', master: '', serviceAccountRoot: directory });
    expect(loaded).toMatchObject({
      ok: false,
      error: expect.stringMatching(/^no service account found .*: set --kubeconfig or --master/) as unknown,
    });
  });
});

interface Changes {
  readonly master?: string;
  readonly proxy?: string;
}

describe('credentials are encrypted', () => {
  const user = { token: 'secret-token' };

  async function load(server: string, more: Changes = {}) {
    const cluster = { server, ...(more.proxy === undefined ? {} : { 'proxy-url': more.proxy }) };
    await writeFile(path, document({ clusters: [{ name: 'c', cluster }], users: [{ name: 'u', user }] }));
    return loadKubeConfig({ kubeconfig: path, master: more.master ?? '' });
  }

  test.each<[string, Changes?]>([
    ['https://192.0.2.1'],
    ['http://127.0.0.1:8001'],
    ['http://localhost:8001'],
    ['localhost:8001'],
    ['http://[::1]:8001'],
    ['http://127.0.0.1:8001', { proxy: 'http://127.0.0.2:3128' }],
    ['https://192.0.2.1', { proxy: 'http://192.0.2.9:3128' }],
    ['http://192.0.2.1', { master: 'https://192.0.2.2' }],
  ])('%s %j: accepted', async (server, more = {}) => {
    expect(await load(server, more)).toMatchObject({ ok: true });
  });

  test.each<[string, Changes?]>([
    ['http://192.0.2.1:8080'],
    ['192.0.2.1:8080'],
    ['http://localhost.example'],
    ['http://127.0.0.1.example'],
    ['http://127.0.0.1:8001', { proxy: 'http://192.0.2.9:3128' }],
    ['https://192.0.2.1', { master: 'http://192.0.2.2' }],
  ])('%s %j: refused, with what to do', async (server, more = {}) => {
    const error = /would get our credentials without encryption: write https:\/\/ before its address/;
    expect(await load(server, more)).toMatchObject({ ok: false, error: expect.stringMatching(error) as unknown });
  });

  test('a password in the URL counts as a credential, and is not shown', async () => {
    const refused = loadKubeConfig({ kubeconfig: '', master: 'http://a:secret@192.0.2.1' });
    expect(refused).toMatchObject({ ok: false, error: expect.stringMatching(/without encryption/) as unknown });
    const invalid = loadKubeConfig({ kubeconfig: '', master: 'ftp://a:secret@192.0.2.1' });
    expect(JSON.stringify([refused, invalid])).not.toContain('secret');
    const accepted = loadKubeConfig({ kubeconfig: '', master: 'https://a:secret@192.0.2.1' });
    expect(accepted).toMatchObject({ ok: true, cluster: { server: 'https://192.0.2.1' } });
  });

  test('without credentials, plain HTTP is accepted', () => {
    expect(loadKubeConfig({ kubeconfig: '', master: 'http://192.0.2.1' })).toMatchObject({ ok: true });
  });

  describe('in a Pod', () => {
    beforeEach(async () => {
      const account = join(directory, 'var/run/secrets/kubernetes.io/serviceaccount');
      await mkdir(account, { recursive: true });
      await writeFile(join(account, 'ca.crt'), 'PEM');
      await writeFile(join(account, 'token'), 'secret');
    });

    afterEach(() => {
      delete process.env['KUBERNETES_SERVICE_HOST'];
      delete process.env['KUBERNETES_SERVICE_PORT'];
    });

    function inPod(host: string, port?: string) {
      process.env['KUBERNETES_SERVICE_HOST'] = host;
      if (port !== undefined) process.env['KUBERNETES_SERVICE_PORT'] = port;
      return loadKubeConfig({ kubeconfig: '', master: '', serviceAccountRoot: directory });
    }

    test.each(['80', '8080', '8001', '6443'])('port %s: https', (port) => {
      expect(inPod('10.96.0.1', port)).toMatchObject({ ok: true, cluster: { server: `https://10.96.0.1:${port}` } });
    });

    test('an IPv6 address', () => {
      expect(inPod('fd00::1', '6443')).toMatchObject({ ok: true, cluster: { server: 'https://[fd00::1]:6443' } });
    });

    test.each([undefined, ''])('port %j: a sentence', (port) => {
      const error = /^no service account found \(KUBERNETES_SERVICE_PORT is not set\): set --kubeconfig or --master/;
      expect(inPod('10.96.0.1', port)).toMatchObject({ ok: false, error: expect.stringMatching(error) as unknown });
    });
  });
});
