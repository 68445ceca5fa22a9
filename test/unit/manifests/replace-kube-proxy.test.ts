import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { type Ended, runToEnd } from '../../support/program.ts';

const SCRIPT = path.resolve('manifests/kind/replace-kube-proxy.sh');

/** Records its arguments, responds from the files next to it, and stores what it is to apply. */
const KUBECTL = `#!/usr/bin/env bash
set -eu
here=$(dirname "$0")
printf '%s\\n' "$*" >>"$here/asked"
case "$*" in
  *'get --raw /version'*) [ -e "$here/cluster" ] ;;
  *'get daemonset kube-proxy'*) [ -e "$here/kube-proxy.conf" ] && echo daemonset.apps/kube-proxy || true ;;
  *'get configmap kube-proxy'*) cat "$here/kube-proxy.conf" ;;
  *'get configmap cluster-info'*) cat "$here/cluster" ;;
  kustomize*) cp -r "$2" "$here/built"; echo built ;;
esac
`;

const CONFIG = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
bindAddressHardFail: false
clusterCIDR: 10.244.0.0/16
ipvs:
  scheduler: lc
mode: "ipvs"`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'kubectl '));
  await mkdir(path.join(folder, 'tmp'));
  await put('kubectl', KUBECTL);
  await chmod(path.join(folder, 'kubectl'), 0o755);
  await put('cluster', 'clusters:\n- cluster:\n    server: https://[fd00::1]:6443\n');
  await put('kube-proxy.conf', CONFIG);
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function put(name: string, text: string): Promise<void> {
  await writeFile(path.join(folder, name), text);
}

async function get(name: string): Promise<string> {
  return await readFile(path.join(folder, name), 'utf8');
}

async function run(...args: readonly string[]): Promise<Ended> {
  const env = { PATH: `${folder}:${process.env['PATH'] ?? ''}`, TMPDIR: path.join(folder, 'tmp') };
  return await runToEnd([SCRIPT, ...args], { env });
}

/** What was asked of kubectl and changes something, without what is the same each time. */
async function changes(): Promise<readonly string[]> {
  const lines = (await get('asked')).trimEnd().split('\n');
  return lines
    .map((line) => line.replace('--context kind-kube-ipvs-proxy --namespace kube-system ', ''))
    .filter((line) => /^(patch|apply|delete|rollout)/.test(line))
    .map((line) => line.replace(/--filename .*\//, '--filename '));
}

const PATCH = 'patch daemonset kube-proxy --type=merge --patch';
const spec = (value: string): string =>
  `{"spec":{"template":{"spec":{"nodeSelector":{"kube-ipvs-proxy-replaced-it":${value}}}}}}`;

describe('replace-kube-proxy.sh', () => {
  test('the script removes kube-proxy from the nodes before it starts ours, and keeps its configuration', async () => {
    const { status, stderr, stdout } = await run();
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(await changes()).toEqual([
      `${PATCH} ${spec('"true"')}`,
      'apply --filename all.yaml',
      'rollout status daemonset/kube-ipvs-proxy --timeout=180s',
    ]);
    expect(stdout).toContain('API server: https://[fd00::1]:6443');
    const { fields, warnings } = readConfigDocument(await get('built/config.conf'), 'config.conf');
    expect(warnings).toEqual([]);
    expect(fields).toMatchObject({
      mode: 'ipvs',
      'ipvs.scheduler': 'lc',
      clusterCIDR: '10.244.0.0/16',
      bindAddressHardFail: true,
      'clientConnection.kubeconfig': '/etc/kube-ipvs-proxy/kubeconfig.conf',
    });
    expect(await get('built/kubeconfig.conf')).toContain('      server: https://[fd00::1]:6443\n');
  });

  test('the script leaves no temporary files', async () => {
    await run();
    expect((await runToEnd(['ls', path.join(folder, 'tmp')])).stdout).toBe('');
  });

  test('--undo reverts the steps in reverse order', async () => {
    expect(await run('--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(await changes()).toEqual([
      'delete daemonset kube-ipvs-proxy --ignore-not-found',
      `${PATCH} ${spec('null')}`,
      'rollout status daemonset/kube-proxy --timeout=180s',
      'delete clusterrolebinding,clusterrole,serviceaccount kube-ipvs-proxy --ignore-not-found',
      'delete configmap --selector app.kubernetes.io/name=kube-ipvs-proxy --ignore-not-found',
    ]);
  });

  test('--dry-run prints the commands and changes nothing', async () => {
    const { status, stdout } = await run('--dry-run');
    expect(status).toBe(0);
    expect(await changes()).toEqual([]);
    expect(stdout).toContain(`'--patch' '${spec('"true"')}'`);
  });

  test('a cluster without kube-proxy gets the configuration for kind', async () => {
    await rm(path.join(folder, 'kube-proxy.conf'));
    expect(await run()).toMatchObject({ status: 0, stderr: '' });
    expect(await changes()).toEqual(['apply --filename all.yaml', expect.stringContaining('rollout status')]);
    expect(await get('built/config.conf')).toBe(await readFile('manifests/kind/config.conf', 'utf8'));
  });

  const IMAGES: readonly (readonly [image: string, lines: readonly string[]])[] = [
    ['mine', ['newName: "mine"', 'newTag: "latest"']],
    ['mine:v1', ['newName: "mine"', 'newTag: "v1"']],
    ['host.example:5000/mine', ['newName: "host.example:5000/mine"', 'newTag: "latest"']],
    ['host.example:5000/a/mine:v1', ['newName: "host.example:5000/a/mine"', 'newTag: "v1"']],
    ['a/mine@sha256:00ff', ['newName: "a/mine"', 'digest: "sha256:00ff"']],
  ];

  test.each(IMAGES)('--image %s --overlay restricted', async (image, lines) => {
    expect(await run('--image', image, '--overlay', 'restricted')).toMatchObject({ status: 0 });
    const kustomization = await get('built/kustomization.yaml');
    for (const line of lines) expect(kustomization).toContain(`    ${line}\n`);
    expect(kustomization).toMatch(/^ {2}- .*manifests\/overlays\/restricted$/m);
  });

  const REFUSED: readonly (readonly [args: readonly string[], says: string])[] = [
    [['--image'], '--image needs a value'],
    [['--image', 'a"; rm -rf x'], 'this is no name of an image: a"; rm -rf x'],
    [['--overlay', '../..'], '--overlay is privileged or restricted, not: ../..'],
    [['--now'], 'unknown argument: --now (--help lists them all)'],
  ];

  test.each(REFUSED)('%j is refused before any request', async (args, says) => {
    expect(await run(...args)).toMatchObject({ status: 1, stderr: `replace-kube-proxy: ${says}\n` });
    await expect(get('asked')).rejects.toThrow('ENOENT');
  });

  test.each(['""', 'iptables'])('a kube-proxy with mode %s is replaced, too', async (mode) => {
    await put('kube-proxy.conf', CONFIG.replace('"ipvs"', mode));
    expect(await run()).toMatchObject({ status: 0, stderr: '' });
    const { fields, warnings } = readConfigDocument(await get('built/config.conf'), 'config.conf');
    expect([fields, warnings]).toMatchObject([{ mode: 'ipvs', clusterCIDR: '10.244.0.0/16' }, []]);
  });

  test('the script refuses a kube-proxy in nftables mode', async () => {
    await put('kube-proxy.conf', CONFIG.replace('"ipvs"', '"nftables"'));
    const { status, stderr } = await run();
    expect(status).toBe(1);
    expect(stderr).toContain('kube-proxy runs in mode nftables: migrate node by node');
    expect(await changes()).toEqual([]);
  });

  test('the script refuses a cluster that does not respond or has no server address', async () => {
    await put('cluster', 'clusters: []\n');
    expect((await run()).stderr).toContain('names no API server');
    await rm(path.join(folder, 'cluster'));
    expect((await run()).stderr).toContain('no cluster answers in context kind-kube-ipvs-proxy');
    expect(await changes()).toEqual([]);
  });
});
