import { describe, expect, test } from '@jest/globals';
import { parseLabelSelector } from '../../../../src/base/label-selector.ts';
import { Interner } from '../../../../src/kube/objects/interner.ts';
import { readManifests } from '../../../../src/kube/manifests/manifest-file.ts';
import type { ManifestFile } from '../../../../src/kube/manifests/manifest-file.ts';

function read(text: string): ManifestFile {
  return readManifests(text, 'node-1', new Interner());
}

function good(text: string): Extract<ManifestFile, { ok: true }> {
  const file = read(text);
  if (!file.ok) throw new Error(file.message);
  return file;
}

describe('readManifests', () => {
  test('marks the Services that the selector of metrics matches', () => {
    const text = `
{apiVersion: v1, kind: Service, metadata: {name: a, labels: {tier: front}}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {clusterIP: 10.96.0.2}}
`;
    const file = readManifests(text, 'node-1', new Interner(), { measured: parseLabelSelector('tier') });
    if (!file.ok) throw new Error(file.message);
    expect(file.objects.map(({ object }) => 'measured' in object)).toEqual([true, false]);
  });

  test('fills in the namespace and what the API server would default', () => {
    const { objects } = good(`
apiVersion: v1
kind: Service
metadata: { name: a }
spec: { clusterIPs: [10.96.0.1, "fd00::1"], ports: [{ port: 80 }] }
`);
    expect(objects).toMatchObject([
      {
        kind: 'service',
        object: {
          meta: { namespace: 'default', name: 'a' },
          type: 'ClusterIP',
          clusterIPs: ['10.96.0.1', 'fd00::1'],
        },
      },
    ]);
  });

  test('a Service without clusterIP is skipped with a warning', () => {
    const { objects, warnings } = good('{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}}');
    expect(objects).toEqual([]);
    expect(warnings).toEqual([
      'skipped Service shop/a: it has no spec.clusterIP; set one in the manifest, because nothing allocates it',
    ]);
  });

  test('the selectors of the watches apply', () => {
    const { objects, warnings, ignored } = good(`
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, labels: {service.kubernetes.io/service-proxy-name: x}}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: c, labels: {service.kubernetes.io/headless: ""}}}
---
{apiVersion: v1, kind: Service, metadata: {name: d, labels: {service.kubernetes.io/headless: ""}}, spec: {clusterIP: 10.96.0.2}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: e}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: g, labels: {service.kubernetes.io/service-proxy-name: x}}}
---
`);
    expect(
      objects.map(
        ({
          kind,
          object: {
            meta: { name },
          },
        }) => `${kind} ${name}`,
      ),
    ).toEqual(['service d', 'endpoint-slice g']);
    expect(warnings).toEqual([]);
    expect(ignored).toHaveLength(5);
  });

  test('Endpoints, and EndpointSlices of v1beta1, are skipped with a warning, unless the file has slices of the Service', () => {
    const { objects, warnings, ignored } = good(`
{apiVersion: v1, kind: Endpoints, metadata: {name: a}}
---
{apiVersion: v1, kind: EndpointsList, items: [{metadata: {name: b, namespace: shop}}]}
---
{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: c-1, labels: {kubernetes.io/service-name: c}}}
---
{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: d-1, labels: {kubernetes.io/service-name: d}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a-x, labels: {kubernetes.io/service-name: a}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: d-x, labels: {kubernetes.io/service-name: d}}}
`);
    expect(objects).toHaveLength(2);
    expect(warnings).toEqual([
      'skipped Endpoints shop/b and 1 more object like it: endpoints come from EndpointSlices of discovery.k8s.io/v1 only',
    ]);
    expect(ignored).toEqual(['Endpoints default/a', 'EndpointSlice default/d-1']);
  });

  test('lists of the API, whose items do not repeat their kind', () => {
    const { objects } = good(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSliceList
items:
- metadata: { name: a-1 }
  addressType: IPv4
  ports: [{ port: 80 }]
- 7
`);
    expect(objects).toMatchObject([
      {
        kind: 'endpoint-slice',
        object: { meta: { namespace: 'default', name: 'a-1' }, ports: [{ name: '', port: 80 }] },
      },
    ]);
  });

  test('documents that are not objects or have no kind are skipped with a warning', () => {
    expect(good('just text\n---\n[1]\n---\n{kind: Service}\n---\n{apiVersion: v1, kind: Service}').warnings).toEqual([
      'skipped the document at line 1: it is not an object with apiVersion, kind and metadata',
      'skipped the document at line 2: it is not an object with apiVersion, kind and metadata',
      'skipped the document at line 4: it has no apiVersion or kind',
      'the Service has no metadata.name',
    ]);
  });

  test('in a file with directives, a warning does not name the line', () => {
    expect(good('%YAML 1.2\n---\n[1]\n---\n[2]').warnings).toEqual([
      'skipped a document: it is not an object with apiVersion, kind and metadata',
      'skipped a document: it is not an object with apiVersion, kind and metadata',
    ]);
  });

  test.each([
    ['a tab as indentation', 'kind: Service\nmetadata:\n\tname: a\n', 3],
    ['a key twice', 'kind: Service\nkind: Node\n', 2],
    ['half a JSON file', '{"kind": "Service",\n "metadata": {"name": "a"', 2],
    ['an alias without an anchor', 'kind: Service\n---\nmetadata: *none\n', 3],
    ['an error in the second document', 'a: 1\n---\nb: [\n', 4],
  ])('%s is an error with line and column', (_name, text, line) => {
    expect(read(text)).toMatchObject({ ok: false, line });
  });

  test('too many aliases are refused', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 9; i++)
      lines.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      );
    expect(read(lines.join('\n'))).toMatchObject({ ok: false });
  });

  test('an empty file has no objects', () => {
    expect(good('')).toEqual({ ok: true, objects: [], warnings: [], ignored: [] });
    expect(good('# only a comment\n---\n').objects).toEqual([]);
  });
});
