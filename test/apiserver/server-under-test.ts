import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AdminClient } from './admin-client.ts';
import { ApiServer } from './api-server.ts';
import { CertificateAuthority } from './certificates.ts';
import { kubeconfig } from './kubeconfig.ts';
import { RealApiServer } from './real-api-server.ts';

/** A server with TLS that accepts the tokens below. Its objects survive a restart. */
export interface RunningApiServer {
  readonly url: string;
  readonly caFile: string;
  readonly ca: string;
  /** Ends the server as abruptly as a machine failure, and starts it again at the same address. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Maps tokens to users: admin may do everything, proxier what system:node-proxier may, stranger nothing. */
const TOKENS = { admin: 'admin', proxier: 'system:kube-proxy', stranger: 'stranger' } as const;

/** Namespaces that tests use, in addition to "default". */
const NAMESPACES = ['shop'];

/** Actions that a proxy might try but system:node-proxier may not perform. */
const FORBIDDEN = ['get events', 'list events', 'delete events', 'get services', 'get endpointslices'];

/** An API server, in memory or real, with helpers for tests. */
export class ApiServerUnderTest extends AdminClient {
  readonly #running: RunningApiServer;
  readonly #directory: string;

  private constructor(running: RunningApiServer, directory: string) {
    super(running.url, running.ca);
    this.#running = running;
    this.#directory = directory;
  }

  static async inMemory(): Promise<ApiServerUnderTest> {
    const directory = await mkdtemp(join(tmpdir(), 'api-server-'));
    return new ApiServerUnderTest(await startInMemory(directory), directory);
  }

  /** @param assets folder with etcd and kube-apiserver */
  static async real(assets: string): Promise<ApiServerUnderTest> {
    const directory = await mkdtemp(join(tmpdir(), 'api-server-'));
    const { admin: _masters, ...others } = TOKENS;
    const options = { assets, directory, tokens: others, namespaces: NAMESPACES };
    return new ApiServerUnderTest(await RealApiServer.start(options), directory);
  }

  /** Writes a kubeconfig for this token and resolves with its path, which is the same for all tokens. */
  async kubeconfig(token: string): Promise<string> {
    const path = join(this.#directory, 'kubeconfig');
    const { url: server, caFile } = this.#running;
    await writeFile(path, kubeconfig({ server, cluster: { 'certificate-authority': caFile }, user: { token } }));
    return path;
  }

  restart(): Promise<void> {
    return this.#running.restart();
  }

  async stop(): Promise<void> {
    await this.#running.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function startInMemory(directory: string): Promise<RunningApiServer> {
  const { ca, ...authority } = await serverCertificate(directory);
  const auth = { tokens: TOKENS, powerless: [TOKENS.stranger], limited: { [TOKENS.proxier]: FORBIDDEN } };
  const server = new ApiServer({ tls: { ...authority, ca: ca.cert }, auth, bookmarkMs: 1_000 });
  const url = await server.start();
  const { port } = server;
  return {
    url,
    ca: ca.cert,
    caFile: ca.certFile,
    restart: async () => {
      await server.stop();
      await server.start(port);
    },
    stop: () => server.stop(),
  };
}

async function serverCertificate(
  directory: string,
): Promise<{ cert: string; key: string; ca: { cert: string; certFile: string } }> {
  const authority = await CertificateAuthority.create(directory);
  const { cert, key } = await authority.server();
  return { cert, key, ca: authority.ca };
}
