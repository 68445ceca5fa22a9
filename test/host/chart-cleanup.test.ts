import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { type KubeObject, render, tools } from '../support/chart.ts';
import { runToEnd } from '../support/program.ts';

interface Job extends KubeObject {
  readonly metadata: KubeObject['metadata'] & { readonly annotations: Readonly<Record<string, string>> };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly args: readonly string[];
          readonly env: readonly { readonly name: string; readonly value: string }[];
        }[];
      };
    };
  };
}

/** The objects of the clean-up. */
function hooks(...values: readonly string[]): readonly KubeObject[] {
  const set = ['apiServer=https://192.0.2.1:6443', 'cleanupOnUninstall.enabled=true', ...values];
  return render('--no-hooks=false', ...set.map((value) => `--set=${value}`)).objects.filter(({ metadata }) =>
    metadata.name.endsWith('-cleanup'),
  );
}

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm');
else
  describe('the clean-up after helm uninstall', () => {
    test('exists only if it is asked for, and is no part of the release', () => {
      expect(hooks('cleanupOnUninstall.enabled=false')).toEqual([]);
      const objects = hooks();
      expect(objects.map(({ kind }) => kind).toSorted()).toEqual([
        'DaemonSet',
        'Job',
        'Role',
        'RoleBinding',
        'ServiceAccount',
      ]);
      for (const { kind, metadata } of objects) {
        expect(metadata).toMatchObject({
          annotations: {
            'helm.sh/hook': 'post-delete',
            'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
            // The Job waits for the others.
            'helm.sh/hook-weight': kind === 'Job' ? '1' : '0',
          },
        });
      }
    });

    test('cleans up each node that had a proxy, also the Pods that it prepared', () => {
      const values = ['preparePods.enabled=true', 'nodeSelector.proxy=ours'];
      const set = hooks(...values).find(({ kind }) => kind === 'DaemonSet');
      expect(set).toMatchObject({
        spec: {
          template: {
            spec: {
              hostNetwork: true,
              nodeSelector: { proxy: 'ours' },
              tolerations: [{ operator: 'Exists' }],
              initContainers: [{ args: ['--cleanup', '--dsr-prepare-pods'], securityContext: { privileged: true } }],
            },
          },
        },
      });
    });

    test('the Job ends when all nodes are clean, also with the address of the kubelet', async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'cleanup-'));
      const asked: string[] = [];
      const answers = [
        { code: 403, body: {} },
        { code: 200, body: { metadata: { generation: 1 }, status: { numberReady: 0, desiredNumberScheduled: 0 } } },
        {
          code: 200,
          body: {
            metadata: { generation: 1 },
            status: { observedGeneration: 1, numberReady: 1, desiredNumberScheduled: 2 },
          },
        },
        {
          code: 200,
          body: {
            metadata: { generation: 1 },
            status: { observedGeneration: 1, numberReady: 2, desiredNumberScheduled: 2 },
          },
        },
      ];
      const server = http.createServer(({ url, headers }, response) => {
        const { code, body } = answers[asked.length] ?? { code: 500, body: {} };
        asked.push(`${url} ${headers.authorization}`);
        response.writeHead(code).end(JSON.stringify(body));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const kubelet = path.join(folder, 'kubelet.conf');
      const token = path.join(folder, 'token');
      writeFileSync(
        kubelet,
        `clusters:\n- cluster:\n    server: http://127.0.0.1:${(server.address() as AddressInfo).port}\n`,
      );
      writeFileSync(token, 'secret\n');
      const job = hooks().find(({ kind }) => kind === 'Job') as Job;
      const [container] = job.spec.template.spec.containers;
      const env = Object.fromEntries(container?.env.map(({ name, value }) => [name, value]) ?? []);
      expect(env).toMatchObject({ API_SERVER: 'https://192.0.2.1:6443', KUBELET_KUBECONFIG: '' });
      const script = (container?.args[0] ?? '').replace('2_000', '10');
      const ended = await runToEnd([process.execPath, '--eval', script], {
        env: { ...env, KUBELET_KUBECONFIG: kubelet, TOKEN_FILE: token, NODE_EXTRA_CA_CERTS: '' },
      });
      server.close();
      rmSync(folder, { recursive: true });
      expect(ended).toMatchObject({ status: 0, stdout: expect.stringMatching(/2 of 2 nodes are clean\n$/) });
      const request = '/apis/apps/v1/namespaces/kube-system/daemonsets/kube-ipvs-proxy-cleanup Bearer secret';
      expect(asked).toEqual([request, request, request, request]);
    });
  });
