import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { parseArgv } from '../../src/cli/parse-argv.ts';
import { readConfigDocument } from '../../src/config/config-document.ts';
import { resolveConfig } from '../../src/config/resolve.ts';
import { openSource } from '../../src/daemon/startup/open-source.ts';
import type { Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { ProxyMetrics } from '../../src/observe/proxy-metrics.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';
import { node, service, slice } from './harness.ts';

const FILE = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
---
apiVersion: kube-ipvs-proxy/v1alpha1
kind: KubeIPVSProxyConfiguration
serviceDefaults:
  - selector: { matchLabels: { component: apiserver } }
    annotations: { scheduler: lc }
  - selector: { matchExpressions: [{ key: tier, operator: In, values: [front, edge] }] }
    annotations: { scheduler: wrr }
`;

let server: ApiServer;

beforeEach(async () => {
  server = new ApiServer({});
  await server.start();
});

afterEach(async () => {
  await server.stop();
});

test("labels select the operator's defaults of Services that are looked up, listed or changed", async () => {
  server.apply(node('node-1'));
  server.apply(service('kubernetes', '10.96.0.1', { labels: { component: 'apiserver' } }));
  server.apply(slice('kubernetes', ['192.0.2.8']));
  server.apply(service('web', '10.96.0.2', { labels: { tier: 'edge' } }));
  server.apply(service('other', '10.96.0.3'));
  const parsed = parseArgv([`--master=${server.url}`, '--config=f.yaml']);
  if (!parsed.ok) throw new Error(parsed.errors.join());
  const file = { ...readConfigDocument(FILE, 'f.yaml'), path: 'f.yaml', sha256: '' };
  const config = resolveConfig(parsed.given, file);
  const opened = openSource(config, 'node-1', new ProxyMetrics(), new RecordingLog());
  const events: SourceEvent[] = [];
  opened.source.start((event) => events.push(event));
  const services = (type: 'applied' | 'replaced'): string[] =>
    events.flatMap(({ kind, event }) => {
      if (kind !== 'service' || event.type !== type) return [];
      return event.type === 'replaced' ? event.objects.map(described) : [described(event.object)];
    });
  const lookedUp = 'kubernetes: serviceDefaults[0]';
  await eventually(() => expect(services('replaced')).toHaveLength(3));
  expect(services('replaced').toSorted()).toEqual([lookedUp, 'other: ', 'web: serviceDefaults[1]']);
  expect(services('applied')).toEqual([lookedUp]);
  server.apply(service('web', '10.96.0.2', { labels: { tier: 'back' } }));
  server.apply(service('other', '10.96.0.3', { labels: { tier: 'front' } }));
  await eventually(() => expect(services('applied')).toEqual([lookedUp, 'web: ', 'other: serviceDefaults[1]']));
  await opened.source.stop();
  opened.close();
});

function described({ meta, defaults = [] }: Service): string {
  return `${meta.name}: ${defaults.map(({ path }) => path).join(' ')}`;
}
