import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ApiServer } from '../apiserver/api-server.ts';
import { type Certificate, CertificateAuthority } from '../apiserver/certificates.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { runCommand } from '../bed/command.ts';
import type { Namespace } from '../bed/namespace.ts';

/** Our end of a separate link to the node: the API server listens there, in the process of the test. */
const SERVER_ADDRESS = '10.210.0.1';
const NODE_END = '10.210.0.2';
const LINK = 'api0';

export const CLUSTER_IP = '10.202.0.10';

/**
 * An API server over TLS that a node reaches, with one Service; whoever has no accepted token or certificate is
 * refused.
 */
export class ApiLink implements AsyncDisposable {
  readonly server: ApiServer;
  readonly folder: string;
  readonly #authority: CertificateAuthority;
  #port = 0;

  private constructor(folder: string, authority: CertificateAuthority, { cert, key }: Certificate) {
    this.folder = folder;
    this.#authority = authority;
    const tls = { cert, key, ca: authority.ca.cert };
    this.server = new ApiServer({ host: SERVER_ADDRESS, tls, auth: { requireUser: true } });
  }

  static async create(node: Namespace): Promise<ApiLink> {
    const folder = await mkdtemp(path.join(tmpdir(), 'api-'));
    await runCommand(['ip', '-batch', '-'], {
      input: [
        `link add ${LINK} type veth peer name ${LINK} netns ${node.netns}`,
        `addr add ${SERVER_ADDRESS}/30 dev ${LINK}`,
        `link set ${LINK} up`,
        '',
      ].join('\n'),
    });
    await node.ip([`addr add ${NODE_END}/30 dev ${LINK}`, `link set ${LINK} up`]);
    const authority = await CertificateAuthority.create(folder);
    const link = new ApiLink(folder, authority, await authority.server('server', [SERVER_ADDRESS]));
    await link.server.start();
    link.#port = link.server.port;
    for (const object of objects()) link.server.apply(object);
    return link;
  }

  get port(): number {
    return this.#port;
  }

  /** On the port that it had before. */
  async startAgain(): Promise<void> {
    await this.server.start(this.#port);
  }

  client(name: string): Promise<Certificate> {
    return this.#authority.client(name);
  }

  /** A file that names this server, its CA and the user. */
  async kubeconfig(user: Readonly<Record<string, unknown>>): Promise<string> {
    const file = path.join(this.folder, 'kubeconfig');
    const cluster = { 'certificate-authority': this.#authority.ca.certFile };
    await writeFile(file, kubeconfig({ server: `https://${SERVER_ADDRESS}:${this.#port}`, cluster, user }));
    return file;
  }

  /** A folder as a kubelet mounts it below /var/run/secrets; `rotate` it as a kubelet does. */
  async serviceAccount(token: string): Promise<string> {
    const root = path.join(this.folder, 'secrets');
    const mounted = path.join(root, 'kubernetes.io/serviceaccount');
    await mkdir(mounted, { recursive: true });
    await this.rotate(token);
    for (const name of ['token', 'ca.crt']) await symlink(`..data/${name}`, path.join(mounted, name));
    return root;
  }

  /** All files of the volume change at once: a link to their folder is replaced. */
  async rotate(token: string): Promise<void> {
    const mounted = path.join(this.folder, 'secrets/kubernetes.io/serviceaccount');
    const version = `..${token}`;
    await mkdir(path.join(mounted, version));
    await writeFile(path.join(mounted, version, 'token'), token);
    await writeFile(path.join(mounted, version, 'ca.crt'), this.#authority.ca.cert);
    await symlink(version, path.join(mounted, '..data_new'));
    await rename(path.join(mounted, '..data_new'), path.join(mounted, '..data'));
  }

  environment(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      KUBERNETES_SERVICE_HOST: SERVER_ADDRESS,
      KUBERNETES_SERVICE_PORT: String(this.#port),
    };
  }

  /** The one slice, with these pods of node 0 as its endpoints. */
  setEndpoints(addresses: readonly string[]): void {
    this.server.apply(slice(addresses));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop();
    await rm(this.folder, { recursive: true });
  }
}

function objects(): readonly JsonObject[] {
  return [
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'node-0' },
      status: { addresses: [{ type: 'InternalIP', address: '10.200.0.10' }] },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web', namespace: 'default' },
      spec: {
        clusterIP: CLUSTER_IP,
        clusterIPs: [CLUSTER_IP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      },
    },
    slice(['10.201.0.10']),
  ];
}

function slice(addresses: readonly string[]): JsonObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'default', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({
      addresses: [address],
      nodeName: 'node-0',
      conditions: { ready: true },
    })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}
