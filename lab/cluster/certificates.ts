import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../test/bed/command.ts';
import { PLANS } from './addresses.ts';
import type { Family } from './settings.ts';

/** Files of a certificate and its key. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

/** The certificates of a cluster: an authority and what it has signed. They are valid for 30 days. */
export class Authority {
  readonly #folder: string;
  readonly certificate: string;
  readonly key: string;

  private constructor(folder: string) {
    this.#folder = folder;
    this.certificate = path.join(folder, 'ca.crt');
    this.key = path.join(folder, 'ca.key');
  }

  static async create(folder: string): Promise<Authority> {
    await mkdir(folder, { recursive: true });
    const authority = new Authority(folder);
    await openssl(authority, '/CN=cluster', ['-addext', 'basicConstraints=critical,CA:TRUE']);
    return authority;
  }

  /** The authority that was created in this folder. */
  static in(folder: string): Authority {
    return new Authority(folder);
  }

  /** Identifies a client: the name of a user and a group. */
  client(file: string, user: string, group?: string): Promise<Certificate> {
    return this.#sign(file, `${group === undefined ? '' : `/O=${group}`}/CN=${user}`, ['extendedKeyUsage=clientAuth']);
  }

  /** Identifies a server by names and addresses. */
  server(file: string, names: readonly string[], addresses: readonly string[]): Promise<Certificate> {
    const all = [...names.map((name) => `DNS:${name}`), ...addresses.map((address) => `IP:${address}`)];
    return this.#sign(file, `/CN=${file}`, ['extendedKeyUsage=serverAuth', `subjectAltName=${all.join()}`]);
  }

  /** A pair of keys: tokens of ServiceAccounts are signed with one and checked with the other. */
  async serviceAccountKeys(): Promise<{ readonly publicKey: string; readonly privateKey: string }> {
    const [publicKey, privateKey] = [path.join(this.#folder, 'sa.pub'), path.join(this.#folder, 'sa.key')];
    await runCommand([
      'openssl',
      'genpkey',
      '-algorithm',
      'RSA',
      '-pkeyopt',
      'rsa_keygen_bits:2048',
      '-out',
      privateKey,
    ]);
    await runCommand(['openssl', 'pkey', '-in', privateKey, '-pubout', '-out', publicKey]);
    return { publicKey, privateKey };
  }

  async #sign(file: string, subject: string, extensions: readonly string[]): Promise<Certificate> {
    const files = { certificate: path.join(this.#folder, `${file}.crt`), key: path.join(this.#folder, `${file}.key`) };
    const signer = ['-CA', this.certificate, '-CAkey', this.key];
    const all = ['basicConstraints=CA:FALSE', ...extensions].flatMap((extension) => ['-addext', extension]);
    await openssl(files, subject, [...signer, ...all]);
    return files;
  }
}

async function openssl(files: Certificate, subject: string, more: readonly string[]): Promise<void> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', files.key];
  await runCommand([
    'openssl',
    'req',
    '-x509',
    ...key,
    '-subj',
    subject,
    '-days',
    '30',
    '-out',
    files.certificate,
    ...more,
  ]);
}

/** A new certificate for the names and addresses of the API server, and more addresses. */
export async function apiServerCertificate(
  authority: Authority,
  families: readonly Family[],
  more: readonly string[] = [],
): Promise<Certificate> {
  const service = 'kubernetes.default.svc';
  const names = ['localhost', 'kubernetes', 'kubernetes.default', service, `${service}.cluster.local`];
  const addresses = families.flatMap((family) => [PLANS[family].bridge, PLANS[family].apiService]);
  return authority.server('api-server', names, ['127.0.0.1', '::1', ...addresses, ...more]);
}
