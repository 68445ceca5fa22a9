import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AdminClient } from './admin-client.ts';
import { CertificateAuthority } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import type { RunningApiServer } from './server-under-test.ts';

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

/** A child process. Keeps the end of its stderr for error messages. */
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

  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.ended) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#child.once('exit', () => resolve());
    this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await promise;
    clearTimeout(timer);
  }
}

export interface RealApiServerOptions {
  /** Folder with etcd and kube-apiserver, with the layout of setup-envtest. */
  readonly assets: string;
  /** An empty directory for certificates, tokens and data. */
  readonly directory: string;
  /** Maps tokens to users, whose permissions come from RBAC. The token "admin" is added and may do everything. */
  readonly tokens: Readonly<Record<string, string>>;
  readonly namespaces: readonly string[];
}

/** Runs etcd and kube-apiserver on free loopback ports, with their own certificates and tokens. */
export class RealApiServer implements RunningApiServer {
  readonly url: string;
  readonly caFile: string;
  readonly ca: string;
  readonly #admin: AdminClient;
  readonly #etcd: Program;
  readonly #startServer: () => Program;
  #server: Program;

  private constructor(url: string, ca: Certificate, etcd: Program, startServer: () => Program) {
    this.url = url;
    this.caFile = ca.certFile;
    this.ca = ca.cert;
    this.#admin = new AdminClient(url, ca.cert);
    this.#etcd = etcd;
    this.#startServer = startServer;
    this.#server = startServer();
  }

  static async start({ assets, directory, tokens, namespaces }: RealApiServerOptions): Promise<RealApiServer> {
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
    const argv = [
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
      `--service-account-key-file=${certFile}`,
      `--service-account-signing-key-file=${keyFile}`,
      '--disable-admission-plugins=ServiceAccount',
    ];
    const startServer = (): Program => new Program(join(assets, 'kube-apiserver'), argv);
    const real = new RealApiServer(`https://127.0.0.1:${port}`, authority.ca, etcd, startServer);
    try {
      await real.#ready();
      for (const name of namespaces) {
        const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
        await real.#admin.ask('POST', '/api/v1/namespaces', { body });
      }
    } catch (error) {
      await real.stop();
      throw error;
    }
    return real;
  }

  async restart(): Promise<void> {
    await this.#server.kill();
    this.#server = this.#startServer();
    await this.#ready();
  }

  /** Stops the API server first, because it needs etcd until it exits. */
  async stop(): Promise<void> {
    await this.#server.stop();
    await this.#etcd.stop();
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + READY_MS;
    for (;;) {
      const status = await this.#admin.ask('GET', '/readyz').then(
        ({ code }) => code,
        () => 0,
      );
      if (status === 200) return;
      const ended = [this.#etcd, this.#server].find((program) => program.ended);
      if (ended !== undefined) throw new Error(`etcd or kube-apiserver ended: ${ended.words}`);
      if (Date.now() > deadline) throw new Error(`kube-apiserver is not ready: ${this.#server.words}`);
      await sleep(200);
    }
  }
}
