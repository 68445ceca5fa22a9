import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import https from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CertificateAuthority } from './certificates.ts';
import type { JsonObject } from './json-object.ts';
import { typeOfObject } from './resources.ts';

const READY_MS = 60_000;
const STOP_MS = 10_000;

async function freePort(): Promise<number> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', resolve);
  await promise;
  const { port } = server.address() as AddressInfo;
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  await closed.promise;
  return port;
}

/** A process of ours, whose last words are kept for an error. */
class Program {
  readonly #child: ChildProcess;
  #words = '';

  constructor(file: string, argv: readonly string[]) {
    this.#child = spawn(file, argv, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child.stderr?.on('data', (chunk) => (this.#words = (this.#words + String(chunk)).slice(-4_000)));
    this.#child.on('error', (error) => (this.#words += String(error)));
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined;
  }

  get words(): string {
    return this.#words;
  }

  async stop(): Promise<void> {
    if (this.ended) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#child.once('exit', () => resolve());
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await promise;
    clearTimeout(timer);
  }
}

/** etcd and kube-apiserver of a folder, on loopback, with certificates and tokens of their own. See README.md: not proven yet. */
export class RealApiServer {
  readonly url: string;
  readonly caFile: string;
  readonly #ca: string;
  readonly #directory: string;
  readonly #programs: readonly Program[];

  private constructor(url: string, ca: { cert: string; certFile: string }, directory: string, programs: Program[]) {
    this.url = url;
    this.caFile = ca.certFile;
    this.#ca = ca.cert;
    this.#directory = directory;
    this.#programs = programs;
  }

  /** @param tokens token -> user; "admin" may do everything, others what RBAC gives them */
  static async start(assets: string, tokens: Readonly<Record<string, string>>): Promise<RealApiServer> {
    const directory = await mkdtemp(join(tmpdir(), 'real-api-server-'));
    const authority = await CertificateAuthority.create(directory);
    const { certFile, keyFile } = await authority.server();
    const tokenFile = join(directory, 'tokens.csv');
    const lines = Object.entries(tokens).map(([token, user]) => `${token},${user},${user}`);
    await writeFile(tokenFile, ['admin,admin,admin,"system:masters"', ...lines, ''].join('\n'), { mode: 0o600 });
    const [client, peer, port] = [await freePort(), await freePort(), await freePort()];
    const etcdUrl = `http://127.0.0.1:${client}`;
    const etcd = new Program(join(assets, 'etcd'), [
      `--data-dir=${join(directory, 'etcd')}`,
      `--listen-client-urls=${etcdUrl}`,
      `--advertise-client-urls=${etcdUrl}`,
      `--listen-peer-urls=http://127.0.0.1:${peer}`,
      '--unsafe-no-fsync=true',
    ]);
    const server = new Program(join(assets, 'kube-apiserver'), [
      `--etcd-servers=${etcdUrl}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--tls-cert-file=${certFile}`,
      `--tls-private-key-file=${keyFile}`,
      `--client-ca-file=${authority.ca.certFile}`,
      `--cert-dir=${directory}`,
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--service-account-issuer=https://127.0.0.1',
      `--service-account-key-file=${keyFile}`,
      `--service-account-signing-key-file=${keyFile}`,
      '--disable-admission-plugins=ServiceAccount',
    ]);
    const real = new RealApiServer(`https://127.0.0.1:${port}`, authority.ca, directory, [server, etcd]);
    try {
      await real.#ready();
    } catch (error) {
      await real.stop();
      throw error;
    }
    return real;
  }

  /** Creates the object; throws what the server says against it. */
  async create(object: JsonObject): Promise<void> {
    await this.#expect('POST', this.#collection(object), object);
  }

  async delete(object: JsonObject): Promise<void> {
    await this.#expect('DELETE', `${this.#collection(object)}/${object.metadata.name}`);
  }

  /** The API server first: it wants etcd to the last. */
  async stop(): Promise<void> {
    for (const program of this.#programs) await program.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }

  #collection(object: JsonObject): string {
    const { apiVersion, plural } = typeOfObject(object);
    const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const { namespace } = object.metadata;
    return namespace === undefined ? `${root}/${plural}` : `${root}/namespaces/${namespace}/${plural}`;
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + READY_MS;
    for (;;) {
      const status = await this.#request('GET', '/readyz').then(
        ({ code }) => code,
        () => 0,
      );
      if (status === 200) return;
      const ended = this.#programs.find((program) => program.ended);
      if (ended !== undefined) throw new Error(`etcd or kube-apiserver ended: ${ended.words}`);
      if (Date.now() > deadline) throw new Error(`kube-apiserver is not ready: ${this.#programs[0]?.words}`);
      await sleep(200);
    }
  }

  async #expect(method: string, path: string, body?: JsonObject): Promise<void> {
    const { code, text } = await this.#request(method, path, body);
    if (code >= 300) throw new Error(`${method} ${path}: ${code} ${text}`);
  }

  async #request(method: string, path: string, body?: JsonObject): Promise<{ code: number; text: string }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ code: number; text: string }>();
    const headers = { Authorization: 'Bearer admin', 'Content-Type': 'application/json' };
    const request = https.request(this.url + path, { method, headers, ca: this.#ca, timeout: 5_000 }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk)));
      response.on('end', () => resolve({ code: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
    return await promise;
  }
}
