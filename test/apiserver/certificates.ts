import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority, created with openssl in a directory of the caller. */
export class CertificateAuthority {
  readonly #directory: string;
  readonly ca: Certificate;

  private constructor(directory: string, ca: Certificate) {
    this.#directory = directory;
    this.ca = ca;
  }

  static async create(directory: string, name = 'ca'): Promise<CertificateAuthority> {
    const ca = await issue(directory, name, ['-addext', 'basicConstraints=critical,CA:TRUE']);
    return new CertificateAuthority(directory, ca);
  }

  /** Issues a server certificate for 127.0.0.1, ::1, localhost and the given addresses. */
  server(name = 'server', addresses: readonly string[] = []): Promise<Certificate> {
    const names = ['IP:127.0.0.1', 'IP:::1', 'DNS:localhost', ...addresses.map((address) => `IP:${address}`)];
    return this.#issue(name, ['-addext', `subjectAltName=${names.join()}`]);
  }

  /** Issues a client certificate for a user of this name. */
  client(name: string): Promise<Certificate> {
    return this.#issue(name, ['-addext', 'extendedKeyUsage=clientAuth']);
  }

  #issue(name: string, more: readonly string[]): Promise<Certificate> {
    const signer = ['-CA', this.ca.certFile, '-CAkey', this.ca.keyFile, '-addext', 'basicConstraints=CA:FALSE'];
    return issue(this.#directory, name, [...signer, ...more]);
  }
}

async function issue(directory: string, name: string, more: readonly string[]): Promise<Certificate> {
  const certFile = join(directory, `${name.replaceAll(/[^\w-]/g, '_')}.crt`);
  const keyFile = certFile.replace(/crt$/, 'key');
  const algorithm = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const names = ['-subj', `/CN=${name}`, '-days', '30', '-keyout', keyFile, '-out', certFile];
  await run('openssl', ['req', '-x509', ...algorithm, ...names, ...more]);
  return { certFile, keyFile, cert: await readFile(certFile, 'utf8'), key: await readFile(keyFile, 'utf8') };
}
