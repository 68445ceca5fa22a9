import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import http, { type IncomingMessage, type Server } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import { CertificateAuthority } from '../apiserver/certificates.ts';
import { KUBECONFIG_CASES, type Sent } from './kubeconfig-cases.ts';

/** With TEST_KUBECTL=path, this kubectl is asked too. */
const KUBECTL = process.env['TEST_KUBECTL'] ?? '';
const PLUGIN = `#!/bin/sh
version=$(printf %s "$KUBERNETES_EXEC_INFO" | sed 's/.*"apiVersion":"\\([^"]*\\)".*/\\1/')
token=$(printf %s "$KUBERNETES_EXEC_INFO" | base64 -w0)
printf '{ "kind": "ExecCredential", "apiVersion": "%s", "status": { "token": "%s" } }' "$version" "$token"
`;

let directory: string;
let encrypted: Server;
let plain: Server;
let ca: string;
const requests: IncomingMessage[] = [];

function hostOf(server: Server): string {
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
  const authority = await CertificateAuthority.create(directory);
  ca = Buffer.from(authority.ca.cert).toString('base64');
  const { cert, key } = await authority.server();
  const answer = (request: IncomingMessage, response: http.ServerResponse): void => {
    requests.push(request);
    response.end('{}');
  };
  encrypted = https.createServer({ cert, key }, answer).listen(0, '127.0.0.1');
  plain = http.createServer(answer).listen(0, '127.0.0.1');
  await Promise.all([once(encrypted, 'listening'), once(plain, 'listening')]);
  await mkdir(join(directory, 'below'));
  await writeFile(join(directory, 'token'), 'from-file\n');
  for (const path of ['plugin.sh', 'below/plugin.sh']) {
    await writeFile(join(directory, path), PLUGIN);
    await chmod(join(directory, path), 0o755);
  }
});

afterAll(async () => {
  encrypted.close();
  plain.close();
  await rm(directory, { recursive: true, force: true });
});

function filled(text: string): string {
  return text
    .replaceAll('SERVER', `https://${hostOf(encrypted)}`)
    .replaceAll('HOST', hostOf(encrypted))
    .replaceAll('PLAIN', hostOf(plain))
    .replaceAll('"CA"', JSON.stringify(ca));
}

/** Returns what the server got with the last request. */
function lastSent(): Sent {
  const request = requests.at(-1);
  if (request === undefined) throw new Error('no request has arrived');
  const { authorization, ...headers } = request.headers;
  const path = (request.url ?? '').replace(/\/version(\?timeout=.*)?$/, '');
  const impersonation = Object.entries(headers).filter(([name]) => name.startsWith('impersonate-'));
  const token = /^Bearer (?<token>eyJ.*)/.exec(authorization ?? '')?.groups?.['token'];
  return {
    ...(path === '' ? {} : { path }),
    ...(impersonation.length > 0 ? { impersonation: Object.fromEntries(impersonation) as Record<string, string> } : {}),
    ...(token !== undefined ? { pluginInfo: JSON.parse(Buffer.from(token, 'base64').toString()) as unknown } : {}),
    ...(token === undefined && authorization !== undefined ? { authorization } : {}),
  };
}

/** Asks for /version with our client. Returns what was sent, or the error. */
async function askWithOurs(kubeconfig: string): Promise<Sent | string> {
  const created = ApiClient.create({ kubeconfig, master: '', userAgent: 'test' });
  if (!created.ok) return created.error;
  const signal = AbortSignal.timeout(10_000);
  const reply = await created.client.request({ method: 'GET', path: '/version', signal });
  if (reply.ok) reply.body.resume();
  created.client.close();
  return reply.ok ? lastSent() : reply.message;
}

async function askWithKubectl(kubeconfig: string): Promise<Sent | 'refused'> {
  requests.length = 0;
  const asking = promisify(execFile)(KUBECTL, ['--kubeconfig', kubeconfig, 'version'], { timeout: 10_000 });
  // kubectl would wait for a user's name.
  asking.child.stdin?.end();
  await asking.catch(() => undefined);
  return requests.length > 0 ? lastSent() : 'refused';
}

describe('a kubeconfig means what it means to kubectl', () => {
  const previous = process.cwd();
  beforeAll(() => process.chdir(directory));
  afterAll(() => process.chdir(previous));

  async function write(text: string): Promise<string> {
    const path = join(directory, 'config');
    await writeFile(path, filled(text));
    return path;
  }

  const filledSent = (sent: Sent): unknown => JSON.parse(filled(JSON.stringify(sent)));

  test.each(KUBECONFIG_CASES.filter(({ error }) => error === undefined))('$name', async ({ text, sent = {} }) => {
    expect(await askWithOurs(await write(text))).toEqual(filledSent(sent));
  });

  test.each(KUBECONFIG_CASES.filter(({ error }) => error !== undefined))(
    '$name: a sentence',
    async ({ text, error }) => {
      const found = await askWithOurs(await write(text));
      expect(found).toMatch(error ?? '');
      expect(found).not.toMatch(/Cannot read|\n/);
    },
  );

  if (KUBECTL !== '') {
    test.each(KUBECONFIG_CASES)('kubectl: $name', async ({ text, sent, kubectl = sent ?? 'refused' }) => {
      const found = await askWithKubectl(await write(text));
      expect(found).toEqual(kubectl === 'refused' ? kubectl : filledSent(kubectl));
    });
  }
});
