import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { FakeKubectl } from '../../support/fake-kubectl.ts';
import type { Ended } from '../../support/program.ts';

const SCRIPT = 'manifests/kind/replace-kube-proxy.sh';
const CLUSTER_INFO = 'configmap/cluster-info/kubeconfig';

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

let kubectl: FakeKubectl;

beforeEach(async () => {
  kubectl = await FakeKubectl.make(CONFIG);
  await kubectl.put(CLUSTER_INFO, 'clusters:\n- cluster:\n    server: https://[fd00::1]:6443\n');
});

afterEach(async () => {
  await kubectl.dispose();
});

async function run(...args: readonly string[]): Promise<Ended> {
  return await kubectl.run(SCRIPT, ...args);
}

const PATCH = 'patch daemonset kube-proxy --type=merge --patch';
const spec = (value: string): string =>
  `{"spec":{"template":{"spec":{"nodeSelector":{"kube-ipvs-proxy-replaced-it":${value}}}}}}`;

describe('replace-kube-proxy.sh', () => {
  test('the script removes kube-proxy from the nodes before it starts ours, and keeps its configuration', async () => {
    const { status, stderr, stdout } = await run();
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual([
      `${PATCH} ${spec('"true"')}`,
      'apply --filename all.yaml',
      'rollout status daemonset/kube-ipvs-proxy --timeout=180s',
    ]);
    expect(stdout).toContain('API server: https://[fd00::1]:6443');
    const { fields, warnings } = readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf');
    expect(warnings).toEqual([]);
    expect(fields).toMatchObject({
      mode: 'ipvs',
      'ipvs.scheduler': 'lc',
      clusterCIDR: '10.244.0.0/16',
      bindAddressHardFail: true,
      'clientConnection.kubeconfig': '/etc/kube-ipvs-proxy/kubeconfig.conf',
    });
    expect(await kubectl.get('built/kubeconfig.conf')).toContain('      server: https://[fd00::1]:6443\n');
  });

  test('the script leaves no temporary files', async () => {
    await run();
    expect(await kubectl.leftovers()).toBe('');
  });

  test('--undo reverts the steps in reverse order', async () => {
    expect(await run('--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual([
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
    expect(await kubectl.changes()).toEqual([]);
    expect(stdout).toContain(`'--patch' '${spec('"true"')}'`);
  });

  test('a cluster without kube-proxy gets the configuration for kind', async () => {
    await kubectl.remove('daemonset/kube-proxy');
    expect(await run()).toMatchObject({ status: 0, stderr: '' });
    expect(await kubectl.changes()).toEqual(['apply --filename all.yaml', expect.stringContaining('rollout status')]);
    expect(await kubectl.get('built/config.conf')).toBe(await readFile('manifests/kind/config.conf', 'utf8'));
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
    const kustomization = await kubectl.get('built/kustomization.yaml');
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
    expect(await kubectl.get('asked')).toBe('');
  });

  test.each(['""', 'iptables'])('a kube-proxy with mode %s is replaced, too', async (mode) => {
    await kubectl.put('configmap/kube-proxy/config.conf', CONFIG.replace('"ipvs"', mode));
    expect(await run()).toMatchObject({ status: 0, stderr: '' });
    const { fields, warnings } = readConfigDocument(await kubectl.get('built/config.conf'), 'config.conf');
    expect([fields, warnings]).toMatchObject([{ mode: 'ipvs', clusterCIDR: '10.244.0.0/16' }, []]);
  });

  test('the script refuses a kube-proxy in nftables mode', async () => {
    await kubectl.put('configmap/kube-proxy/config.conf', CONFIG.replace('"ipvs"', '"nftables"'));
    const { status, stderr } = await run();
    expect(status).toBe(1);
    expect(stderr).toContain('kube-proxy runs in mode nftables: migrate node by node');
    expect(await kubectl.changes()).toEqual([]);
  });

  test('the script refuses a cluster that does not respond or has no server address', async () => {
    await kubectl.put(CLUSTER_INFO, 'clusters: []\n');
    expect((await run()).stderr).toContain('names no API server');
    await kubectl.remove('nodes');
    expect((await run()).stderr).toContain('no cluster answers in context kind-kube-ipvs-proxy');
    expect(await kubectl.changes()).toEqual([]);
  });
});
