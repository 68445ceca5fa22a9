import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { ClientOrder } from './client/lines.ts';

const SOURCES = path.join(import.meta.dirname, 'client');
export const CLIENT_PROGRAM = path.join(SOURCES, 'main.ts');

/** Where a node sees its folder of logs, which it shares with this machine. */
export const NODE_LOGS = '/cluster/logs';

/**
 * The objects of a client in a Pod. It runs on the Node.js of our own image, which every node has. Its output file is in the
 * node's folder of logs, so that its lines arrive without any network.
 *
 * @param folder name of the folder in the folder of logs
 */
export function clientPod(
  namespace: string,
  image: string,
  node: string,
  folder: string,
  order: Omit<ClientOrder, 'output' | 'stopFile'>,
): readonly unknown[] {
  const metadata = { name: 'client', namespace };
  const sources = readdirSync(SOURCES).map((file): [string, string] => [
    file,
    readFileSync(path.join(SOURCES, file), 'utf8'),
  ]);
  const complete: ClientOrder = { ...order, output: '/output/lines', stopFile: '/output/stop' };
  const mounts = [
    { name: 'program', mountPath: '/program', readOnly: true },
    { name: 'output', mountPath: '/output' },
  ];
  return [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: Object.fromEntries(sources) },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec: {
        nodeName: node,
        restartPolicy: 'Never',
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: 'client',
            image,
            imagePullPolicy: 'IfNotPresent',
            command: ['/usr/bin/node', '/program/main.ts', JSON.stringify(complete)],
            resources: { requests: { cpu: '200m' } },
            volumeMounts: mounts,
          },
        ],
        volumes: [
          { name: 'program', configMap: { name: 'client' } },
          { name: 'output', hostPath: { path: `${NODE_LOGS}/${folder}`, type: 'Directory' } },
        ],
      },
    },
  ];
}
