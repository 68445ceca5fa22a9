import { readFile, writeFile } from 'node:fs/promises';
import type { Authority, Certificate } from './certificates.ts';

/** Writes a kubeconfig that needs no other file. */
export async function writeKubeconfig(
  file: string,
  server: string,
  authority: Authority,
  client: Certificate,
): Promise<void> {
  const [ca, certificate, key] = await Promise.all(
    [authority.certificate, client.certificate, client.key].map((one) => readFile(one, 'base64')),
  );
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'cluster', cluster: { server, 'certificate-authority-data': ca } }],
    users: [{ name: 'user', user: { 'client-certificate-data': certificate, 'client-key-data': key } }],
    contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: 'user' } }],
    'current-context': 'cluster',
  };
  await writeFile(file, `${JSON.stringify(config, undefined, 2)}\n`, { mode: 0o600 });
}
