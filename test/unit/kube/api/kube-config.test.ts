import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { loadKubeConfig } from '../../../../src/kube/api/kube-config.ts';

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
    ['a cluster without server', document({ clusters: [{ name: 'c', cluster: {} }] }), /server is missing/],
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
