import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type KubeObject, render, tools } from '../support/chart.ts';
import { type Ended, runToEnd } from '../support/program.ts';

/** The objects of `helm test`. */
function hooks(...values: readonly string[]): readonly KubeObject[] {
  const set = ['apiServer=https://192.0.2.1:6443', ...values];
  return render('--no-hooks=false', ...set.map((value) => `--set=${value}`)).objects.filter(({ metadata }) =>
    metadata.name.endsWith('-test'),
  );
}

const kindsOf = (objects: readonly KubeObject[]): string[] => objects.map(({ kind }) => kind).toSorted();

interface Job extends KubeObject {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly [
          {
            readonly args: readonly [string];
            readonly env: readonly { readonly name: string; readonly value: string }[];
          },
        ];
      };
    };
  };
}

interface PodStatus {
  readonly hostIP?: string;
  readonly initContainerStatuses?: readonly object[];
}

const podOf = (node: string, isReady: boolean, status: PodStatus = {}, uid = 'now'): object => ({
  metadata: { name: `test-${node}`, ownerReferences: [{ uid }] },
  spec: { nodeName: node },
  status: { hostIP: '127.0.0.1', conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }], ...status },
});

function checks(): void {
  test('is no part of the release, and asks in the Pod network of each node that has a proxy', () => {
    const objects = hooks('nodeSelector.proxy=ours');
    expect(kindsOf(objects)).toEqual(['DaemonSet', 'Job', 'Role', 'RoleBinding', 'Service', 'ServiceAccount']);
    for (const { kind, metadata } of objects) {
      expect(metadata).toMatchObject({
        annotations: {
          'helm.sh/hook': 'test',
          'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
          // helm waits for the Job, and the Job for the others.
          'helm.sh/hook-weight': kind === 'Job' ? '1' : '0',
        },
      });
    }
    const set = objects.find(({ kind }) => kind === 'DaemonSet');
    expect(set).toMatchObject({
      spec: {
        template: {
          spec: {
            nodeSelector: { proxy: 'ours' },
            tolerations: [{ operator: 'Exists' }],
            initContainers: [
              {
                args: [
                  'connect',
                  'http://$(HOST_IP):10256/healthz',
                  '$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)',
                  '--timeout=30',
                ],
              },
            ],
          },
        },
      },
    });
    expect(set).not.toHaveProperty('spec.template.spec.hostNetwork');
    // A dead node has a taint of NoExecute.
    expect(objects.find(({ kind }) => kind === 'Job')).toMatchObject({
      spec: {
        template: {
          spec: { nodeSelector: { proxy: 'ours' }, tolerations: [{ operator: 'Exists', effect: 'NoSchedule' }] },
        },
      },
    });
    expect(objects.find(({ kind }) => kind === 'Service')).toMatchObject({
      spec: { type: 'NodePort', selector: { 'k8s-app': 'kube-ipvs-proxy' }, ports: [{ targetPort: 10256 }] },
    });
  });

  test('without node ports, there is no Service', () => {
    expect(kindsOf(hooks('helmTest.nodePort=false'))).not.toContain('Service');
  });

  describe('its Job', () => {
    const NAMESPACE = '/api/v1/namespaces/kube-system';
    let folder: string;
    let server: http.Server;
    let port: number;
    /** What the API server says. */
    let pods: readonly object[];
    let nodePort: number;

    beforeEach(async () => {
      folder = mkdtempSync(path.join(tmpdir(), 'helm-test-'));
      writeFileSync(path.join(folder, 'token'), 'secret\n');
      server = http.createServer(({ url = '', headers }, response) => {
        const replies: Readonly<Record<string, object>> = {
          '/apis/apps/v1/namespaces/kube-system/daemonsets/kube-ipvs-proxy-test': {
            metadata: { generation: 1, uid: 'now' },
            status: { observedGeneration: 1, desiredNumberScheduled: 2 },
          },
          [`${NAMESPACE}/pods?labelSelector=kube-ipvs-proxy/test=kube-ipvs-proxy-test`]: { items: pods },
          [`${NAMESPACE}/services/kube-ipvs-proxy-test`]: { spec: { ports: [{ nodePort }] } },
        };
        const isKnown = url === '/healthz' || headers.authorization === 'Bearer secret';
        response.writeHead(isKnown ? 200 : 403).end(JSON.stringify(replies[url] ?? {}));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      ({ port } = server.address() as AddressInfo);
      nodePort = port;
    });

    afterEach(() => {
      server.close();
      rmSync(folder, { recursive: true });
    });

    async function ended(): Promise<Ended> {
      const { spec } = hooks().find(({ kind }) => kind === 'Job') as Job;
      const [{ args, env }] = spec.template.spec.containers;
      const script = args[0].replaceAll('https://', 'http://').replace('2_000', '10');
      return await runToEnd([process.execPath, '--eval', script], {
        env: {
          ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
          KUBERNETES_SERVICE_HOST: '127.0.0.1',
          KUBERNETES_SERVICE_PORT: String(port),
          TOKEN_FILE: path.join(folder, 'token'),
          NODE_EXTRA_CA_CERTS: '',
          TIMEOUT_SECONDS: '1',
        },
      });
    }

    test('ends when the Pods of all nodes are ready and their node ports answer', async () => {
      pods = [podOf('a', true), podOf('b', true)];
      expect(await ended()).toMatchObject({ status: 0, stdout: 'all nodes pass\n' });
    });

    test.each([
      ['says why', [{ state: { waiting: {} }, lastState: { terminated: { message: 'no answer\n' } } }], 'no answer'],
      ['waits', [{ state: { waiting: { reason: 'ImagePullBackOff' } } }], 'ImagePullBackOff'],
      ['is not known', [], 'its Pod is not ready'],
    ])('names the node whose Pod is not ready, which %s', async (_what, initContainerStatuses, why) => {
      pods = [podOf('a', true), podOf('b', false, { initContainerStatuses })];
      expect(await ended()).toMatchObject({ status: 1, stdout: `b: ${why}\n` });
    });

    test('passes over the Pods of an earlier test, which stay on a dead node', async () => {
      pods = [podOf('a', true), podOf('b', true), podOf('b', false, {}, 'earlier')];
      expect(await ended()).toMatchObject({ status: 0, stdout: 'all nodes pass\n' });
    });

    test('names the node whose node port does not answer', async () => {
      pods = [podOf('a', true), podOf('b', true, { hostIP: '127.0.0.2' })];
      expect(await ended()).toMatchObject({
        status: 1,
        stdout: `b: its node port does not answer, http://127.0.0.2:${port}/healthz: Error: connect ECONNREFUSED 127.0.0.2:${port}\n`,
      });
    });

    test('counts the nodes without a Pod of the test', async () => {
      pods = [podOf('a', true)];
      expect(await ended()).toMatchObject({ status: 1, stdout: '1 Pods of 2 exist\n' });
    });
  });
}

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm');
else
  describe('helm test', () => {
    checks();
  });
