import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { runToEnd } from '../../support/program.ts';

/** The fields that EKS has: mode in quotes, no bindAddressHardFail, no newline at the end. */
const EKS = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig
ipvs:
  scheduler: "lc"
kind: KubeProxyConfiguration
mode: "iptables"`;

/** The fields that somebody set, as Talos writes them: no mode. */
const TALOS = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/kubeconfig
ipvs:
  scheduler: sh
`;

/** The flags of k3s. */
const FLAGS = [
  '--cluster-cidr=10.42.0.0/16',
  '--conntrack-max-per-core=0',
  '--healthz-bind-address=127.0.0.1',
  '--hostname-override=server-0',
  '--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig',
  '--proxy-mode=iptables',
].join(' ');

const KNOWN = 'test/unit/config/known-configs';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'install-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Runs the command of the page with a kubectl that prints the given file. */
async function edited(page: string, given: string): Promise<string> {
  const text = await readFile(page, 'utf8');
  const command = /```\n(\{\n[^`]*> config\.conf)\n```/.exec(text)?.[1] ?? 'false # the page has no such command';
  await writeFile(path.join(folder, 'given'), given);
  await writeFile(path.join(folder, 'kubectl'), '#!/bin/sh\ncat given\n', { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  const ended = await runToEnd(['bash', '-c', `set -eu; cd "$1"; ${command}`, 'bash', folder], { env });
  expect(ended).toEqual({ status: 0, stdout: '', stderr: '' });
  return await readFile(path.join(folder, 'config.conf'), 'utf8');
}

describe.each(['docs/install/README.md', 'docs/migrate.md'])('the command of %s', (page) => {
  const GIVEN: readonly (readonly [name: string, scheduler: string, text: () => Promise<string>])[] = [
    ['kubeadm', '', async () => await readFile(`${KNOWN}/kubeadm.yaml`, 'utf8')],
    ['kubespray', 'rr', async () => await readFile(`${KNOWN}/kubespray.yaml`, 'utf8')],
    ['EKS', 'lc', async () => await Promise.resolve(EKS)],
    ['Talos', 'sh', async () => await Promise.resolve(TALOS)],
  ];

  test.each(GIVEN)('keeps the guard against two proxies with the file of %s', async (_, scheduler, text) => {
    const { fields } = readConfigDocument(await edited(page, await text()), 'config.conf');
    expect(fields).toMatchObject({
      mode: 'ipvs',
      bindAddressHardFail: true,
      'clientConnection.kubeconfig': '/etc/kube-ipvs-proxy/kubeconfig.conf',
      'ipvs.scheduler': scheduler,
    });
  });
});

test('the command for distributions with flags writes them to a file', async () => {
  const text = await readFile('docs/install/README.md', 'utf8');
  const command = /```\n(kube-ipvs-proxy FLAGS [^`]*)\n```/.exec(text)?.[1] ?? 'false # the page has no such command';
  const program = `#!/bin/sh\nexec '${process.execPath}' '${path.resolve('src/main.ts')}' "$@"\n`;
  await writeFile(path.join(folder, 'kube-ipvs-proxy'), program, { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  const script = `set -eu; cd "$1"; ${command.replace('FLAGS', FLAGS)}`;
  expect(await runToEnd(['bash', '-c', script, 'bash', folder], { env })).toMatchObject({
    status: 0,
    stderr: 'kube-ipvs-proxy: wrote the configuration to config.conf\n',
  });
  const { fields } = readConfigDocument(await readFile(path.join(folder, 'config.conf'), 'utf8'), 'config.conf');
  expect(fields).toMatchObject({
    mode: 'ipvs',
    bindAddressHardFail: true,
    clusterCIDR: '10.42.0.0/16',
    healthzBindAddress: '0.0.0.0:10256',
    hostnameOverride: '',
    'clientConnection.kubeconfig': '/etc/kube-ipvs-proxy/kubeconfig.conf',
    'conntrack.maxPerCore': 0,
  });
});
