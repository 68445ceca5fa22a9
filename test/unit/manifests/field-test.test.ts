import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { FakeKubectl } from '../../support/fake-kubectl.ts';
import type { Ended } from '../../support/program.ts';

const CONFIG = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
mode: ipvs`;

const AS_PLANNED = 'the kernel against the plan of this dry run: no unexpected differences\n';
const UNEXPECTED = 'the kernel against the plan of this dry run: 1 unexpected difference\n';

let kubectl: FakeKubectl;

beforeEach(async () => {
  kubectl = await FakeKubectl.make(CONFIG);
  await kubectl.put('configmap/kube-proxy/kubeconfig.conf', 'server: https://192.0.2.1:6443\n');
  await kubectl.put('facts', 'folder yes\nmodule ip_vs yes\n');
  await kubectl.put('diff/node-1', AS_PLANNED);
});

afterEach(async () => {
  await kubectl.dispose();
});

async function run(...args: readonly string[]): Promise<Ended> {
  return await kubectl.run('scripts/field-test', ...args);
}

/** What is kept of a step, without the time in its first line. */
async function kept(name: string): Promise<string> {
  const text = await kubectl.get(`tmp/field-test-node-1/${name}.txt`);
  expect(text).toMatch(/^# \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n/);
  return text.slice(text.indexOf('\n') + 1);
}

test('a dry run, one node there and back, and a report of all of it', async () => {
  expect(await run('shadow', '--image', 'mine:v1', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  expect(await kubectl.changes()).toEqual(['apply --filename all.yaml']);
  expect(await kept('check')).toContain('=> would work');
  expect(await kept('shadow-first')).toContain('no unexpected differences');

  await kubectl.put('asked', '');
  expect(await run('switch', '--image', 'mine:v1', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  const changes = await kubectl.changes();
  expect(changes[0]).toBe('delete daemonset kube-ipvs-proxy-shadow --ignore-not-found');
  expect(changes.at(-1)).toBe('label node node-1 service-proxy=kube-ipvs-proxy --overwrite');
  expect(await kept('shadow-log')).toBe('the log of the Pod\n');
  expect(await kept('switched-first-status')).not.toBe('');

  expect(await run('back', 'node-1')).toMatchObject({ status: 0, stderr: '' });
  expect((await kubectl.changes()).at(-1)).toBe('label node node-1 service-proxy-');
  const { status, stdout } = await run('report', 'node-1');
  expect(status).toBe(0);
  expect(stdout).toContain('field-test-node-1.tar.gz has 17 files. Read them before you send it');
});

test('a difference that is unexpected keeps the node where it is', async () => {
  await run('shadow', 'node-1');
  await kubectl.put('diff/node-1', UNEXPECTED);
  await kubectl.put('asked', '');
  const { status, stderr } = await run('switch', 'node-1');
  expect(status).toBe(1);
  expect(stderr).toBe('field-test: a difference is unexpected: nothing was moved. Send the report\n');
  expect(await kubectl.changes()).toEqual([]);
  expect(await kept('shadow-last')).toContain('1 unexpected difference');
});

test.each([[[]], [['shadow']], [['shadow', '--image']]])('without a step and a node: %j', async (args) => {
  expect(await run(...args)).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^field-test: a step and a node/),
  });
});

test('an unknown step', async () => {
  expect(await run('start', 'node-1')).toMatchObject({
    status: 1,
    stderr: 'field-test: there is no step start: shadow, switch, back, report\n',
  });
});
