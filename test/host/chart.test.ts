import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { load, loadAll } from 'js-yaml';
import { readConfigDocument } from '../../src/config/config-document.ts';
import { goTools } from '../support/tools.ts';

const CHART = 'charts/kube-ipvs-proxy';

interface KubeObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; labels?: unknown };
  readonly data?: Readonly<Record<string, string>>;
}

interface Rendered {
  readonly status: number | null;
  readonly stderr: string;
  readonly objects: readonly KubeObject[];
}

interface DaemonSet extends KubeObject {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly updateStrategy: unknown;
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly serviceAccountName: string;
        readonly containers: readonly {
          readonly image: string;
          readonly args: readonly string[];
          readonly readinessProbe: { readonly httpGet: { readonly port: number } };
        }[];
        readonly volumes: readonly { readonly configMap?: { readonly name: string } }[];
      };
    };
  };
}

const tools = goTools('helm', 'kustomize');

function run(program: string | undefined, args: readonly string[]): Rendered {
  const { status, stdout, stderr } = spawnSync(program ?? '', args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  return { status, stderr, objects: loadAll(stdout).filter((object) => object !== null) as KubeObject[] };
}

/** Renders the chart with values, each written as `name=value`. */
function template(...values: readonly string[]): Rendered {
  return render(...values.flatMap((value) => ['--set', value]));
}

function render(...set: readonly string[]): Rendered {
  // A helm that is built from its module takes a version of 2021 for the cluster's.
  const args = ['kube-ipvs-proxy', CHART, '--namespace=kube-system', '--kube-version=1.35.0', '--no-hooks', ...set];
  return run(tools?.[0], ['template', ...args]);
}

/** The objects of a file of manifests/monitoring. */
function manifest(name: string): readonly { readonly spec: unknown }[] {
  return loadAll(readFileSync(`manifests/monitoring/${name}.yaml`, 'utf8')) as { spec: unknown }[];
}

function daemonSetOf({ objects }: Rendered): DaemonSet {
  return objects.find(({ kind }) => kind === 'DaemonSet') as DaemonSet;
}

/** Objects without labels and comments, in the order of their kinds, and without the hash in the ConfigMap's name. */
function comparable({ objects }: Rendered): unknown[] {
  const name = objects.find(({ kind }) => kind === 'ConfigMap')?.metadata.name ?? '';
  expect(name).toMatch(/^kube-ipvs-proxy-[0-9a-z]{10}$/);
  const text = JSON.stringify(objects).replaceAll(name, 'kube-ipvs-proxy-HASH');
  return (JSON.parse(text) as KubeObject[])
    .map(({ metadata, data, ...object }) => ({
      ...object,
      metadata: { ...metadata, labels: undefined },
      ...(data && { data: Object.fromEntries(Object.entries(data).map(([file, content]) => [file, load(content)])) }),
    }))
    .toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
}

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm and kustomize');
else
  describe('the chart', () => {
    test.each(['privileged', 'restricted'])('is the same as the overlay %s', (overlay) => {
      const chart = template(`overlay=${overlay}`);
      expect(chart.status).toBe(0);
      const kustomized = run(tools[1], ['build', `manifests/overlays/${overlay}`]);
      expect(comparable(chart)).toEqual(comparable(kustomized));
    });

    test('prepares Pods as the component prepare-pods does, but not with restricted rights', () => {
      const chart = template('preparePods.enabled=true');
      expect(chart.status).toBe(0);
      const folder = mkdtempSync(path.join('build', 'kustomize-'));
      const lines = [
        'resources: [../../manifests/overlays/privileged]',
        'components: [../../manifests/components/prepare-pods]',
      ];
      writeFileSync(path.join(folder, 'kustomization.yaml'), lines.join('\n'));
      const kustomized = run(tools[1], ['build', folder]);
      rmSync(folder, { recursive: true });
      expect(comparable(chart)).toEqual(comparable(kustomized));
      const elsewhere = template('preparePods.enabled=true', 'preparePods.namespaceFolder=/var/run/docker/netns');
      expect(daemonSetOf(elsewhere).spec.template.spec.containers[0]?.args).toContain(
        '--dsr-netns-dir=/var/run/docker/netns',
      );
      const refused = template('preparePods.enabled=true', 'overlay=restricted');
      expect(refused.status).not.toBe(0);
      expect(refused.stderr).toContain('--set overlay=privileged');
    });

    test('has the version of the package', () => {
      const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
      expect(load(readFileSync(`${CHART}/Chart.yaml`, 'utf8'))).toMatchObject({ version, appVersion: version });
    });

    test('passes the configuration through, and a change gives the ConfigMap another name', () => {
      const before = template();
      const after = template(
        'config.ipvs.scheduler=lc',
        'config.conntrack.maxPerCore=0',
        'apiServer=https://10.0.0.1:6443',
      );
      const map = after.objects.find(({ kind }) => kind === 'ConfigMap');
      expect(load(map?.data?.['config.conf'] ?? '')).toMatchObject({
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        ipvs: { scheduler: 'lc', strictARP: false },
        conntrack: { maxPerCore: 0 },
      });
      expect(map?.data?.['kubeconfig.conf']).toContain('server: https://10.0.0.1:6443\n');
      expect(map?.metadata.name).not.toBe(before.objects.find(({ kind }) => kind === 'ConfigMap')?.metadata.name);
      expect(daemonSetOf(after).spec.template.spec.volumes[0]?.configMap?.name).toBe(map?.metadata.name);
    });

    test('has nftables mode, too', () => {
      const { status, objects } = template('config.mode=nftables');
      expect(status).toBe(0);
      const map = objects.find(({ kind }) => kind === 'ConfigMap');
      expect(load(map?.data?.['config.conf'] ?? '')).toMatchObject({ mode: 'nftables' });
    });

    test('has fields of our own as a second document, which the daemon reads, and which the schema checks', () => {
      const set = (value: string): string[] => ['--set-json', `ownConfig=${value}`];
      const good =
        '{"serviceDefaults":[{"selector":{"matchLabels":{"a":"b"}},"annotations":{"connection-limit":"9"}}]}';
      const map = render(...set(good)).objects.find(({ kind }) => kind === 'ConfigMap');
      const { own, warnings } = readConfigDocument(map?.data?.['config.conf'] ?? '', 'config.conf');
      expect(warnings).toEqual([]);
      expect(own.serviceDefaults).toMatchObject([{ annotations: [{ name: 'connection-limit', value: '9' }] }]);
      for (const bad of [
        '{"serviceDefault":[]}',
        '{"serviceAnnotations":["limits"]}',
        '{"serviceDefaults":[{"annotations":{"scheduler":"lc"}}]}',
        '{"serviceDefaults":[{"selector":{},"annotations":{"connection-limit":9}}]}',
        '{"serviceDefaults":[{"selector":{"a":"b"},"annotations":{"scheduler":"lc"}}]}',
        '{"serviceDefaults":[{"selector":{},"annotations":{"schedular":"lc"}}]}',
      ]) {
        expect([bad, render(...set(bad)).status]).toEqual([bad, 1]);
      }
    });

    test('has the image by its digest, flags of our own, the number of nodes to update and the health port', () => {
      const digest = `sha256:${'a'.repeat(64)}`;
      const { updateStrategy, template: pod } = daemonSetOf(
        template(
          'image.repository=registry.example:5000/kube-ipvs-proxy',
          `image.digest=${digest}`,
          'extraArgs={--ipvs-drain-timeout=5m}',
          'maxUnavailable=2',
          'config.healthzBindAddress=[::]:10356',
        ),
      ).spec;
      const [container] = pod.spec.containers;
      expect(container?.image).toMatch(new RegExp(`^registry.example:5000/kube-ipvs-proxy:v[\\d.]+@${digest}$`));
      expect(container?.args.at(-1)).toBe('--ipvs-drain-timeout=5m');
      expect(container?.readinessProbe.httpGet.port).toBe(10356);
      expect(updateStrategy).toMatchObject({ rollingUpdate: { maxUnavailable: 2, maxSurge: 0 } });
    });

    test('replaces Pods only when they are deleted, if asked to', () => {
      expect(daemonSetOf(template('updateStrategy=OnDelete')).spec.updateStrategy).toEqual({ type: 'OnDelete' });
    });

    test('a second release with a suffix has no object and no selector of the first, and all references within', () => {
      const values = [
        'podMonitor.enabled=true',
        'serviceMonitor.enabled=true',
        'prometheusRule.enabled=true',
        'dashboard.enabled=true',
        'config.metricsBindAddress=0.0.0.0:10249',
      ];
      const [first, second] = [template(...values), template(...values, 'nameSuffix=-nftables')];
      const namesOf = ({ objects }: Rendered): string[] =>
        objects.map(({ kind, metadata: { name } }) => `${kind} ${name}`);
      expect(namesOf(second)).toHaveLength(namesOf(first).length);
      expect(namesOf(second).filter((name) => namesOf(first).includes(name))).toEqual([]);
      const { selector, template: pod } = daemonSetOf(second).spec;
      expect(selector).toEqual({
        matchLabels: { 'k8s-app': 'kube-ipvs-proxy', 'kube-ipvs-proxy/name': 'kube-ipvs-proxy-nftables' },
      });
      expect(pod.metadata.labels).toEqual(selector.matchLabels);
      expect(namesOf(second)).toContain(`ServiceAccount ${pod.spec.serviceAccountName}`);
      expect(namesOf(second)).toContain(`ConfigMap ${pod.spec.volumes[0]?.configMap?.name}`);
      expect(second.objects.find(({ kind }) => kind === 'ClusterRoleBinding')).toMatchObject({
        roleRef: { kind: 'ClusterRole', name: 'kube-ipvs-proxy-nftables' },
        subjects: [{ kind: 'ServiceAccount', name: 'kube-ipvs-proxy-nftables' }],
      });
    });

    test('monitoring objects are those of manifests/monitoring', () => {
      const { status, objects } = template(
        'podMonitor.enabled=true',
        'serviceMonitor.enabled=true',
        'serviceMonitor.labels.release=main',
        'prometheusRule.enabled=true',
        'dashboard.enabled=true',
        'config.metricsBindAddress=0.0.0.0:10249',
      );
      expect(status).toBe(0);
      const of = (kind: string, name = 'kube-ipvs-proxy'): KubeObject | undefined =>
        objects.find((object) => object.kind === kind && object.metadata.name === name);
      expect(of('PrometheusRule')).toMatchObject({ spec: manifest('prometheus-rules')[0]?.spec });
      const dashboard = of('ConfigMap', 'kube-ipvs-proxy-dashboard')?.data?.['kube-ipvs-proxy.json'] ?? '';
      expect(JSON.parse(dashboard)).toEqual(
        JSON.parse(readFileSync('manifests/monitoring/grafana-dashboard.json', 'utf8')),
      );
      expect(of('ServiceMonitor')?.metadata.labels).toMatchObject({ release: 'main' });
      const [podMonitor, service, serviceMonitor] = [...manifest('pod-monitor'), ...manifest('service-monitor')];
      expect(of('PodMonitor')).toMatchObject({ spec: podMonitor?.spec });
      expect(of('Service', 'kube-ipvs-proxy-metrics')).toMatchObject({ spec: service?.spec });
      expect(of('ServiceMonitor')).toMatchObject({ spec: serviceMonitor?.spec });
    });

    test('monitors have the port of the configuration', () => {
      const values = [
        'podMonitor.enabled=true',
        'serviceMonitor.enabled=true',
        'config.metricsBindAddress=0.0.0.0:10349',
      ];
      const text = JSON.stringify(template(...values).objects);
      for (const found of ['"replacement":"$1:10349"', '"replacement":"[$1]:10349"', '"port":10349']) {
        expect(text).toContain(found);
      }
    });

    test('alerts for other labels and another page', () => {
      const { status, objects } = template(
        'prometheusRule.enabled=true',
        'prometheusRule.selector=job="proxy"\\,cluster="one"',
        'prometheusRule.runbookUrl=https://wiki.example/proxy',
      );
      expect(status).toBe(0);
      const text = JSON.stringify(objects.find(({ kind }) => kind === 'PrometheusRule'));
      const rules = JSON.stringify(manifest('prometheus-rules')[0]?.spec);
      const count = (where: string, what: string): number => where.split(JSON.stringify(what).slice(1, -1)).length - 1;
      expect(count(text, 'job="proxy",cluster="one"')).toBe(count(rules, 'service_proxy='));
      expect(text).not.toContain('service_proxy');
      expect(count(text, 'https://wiki.example/proxy#')).toBe(count(rules, 'runbook_url'));
    });

    test.each(['selector=', 'selector=job', 'selector=up{job="x"}', 'runbookUrl=docs'])(
      'prometheusRule.%s is an error',
      (value) => {
        const { status, stderr } = template('prometheusRule.enabled=true', `prometheusRule.${value}`);
        expect(status).not.toBe(0);
        expect(stderr).toContain(value.slice(0, value.indexOf('=')));
      },
    );

    test.each([
      ['podMonitor.enabled=true', 'Prometheus cannot reach the metrics on 127.0.0.1:10249'],
      ['config.healthzBindAddress=127.0.0.1:10256', 'Load balancers and probes cannot reach 127.0.0.1:10256'],
      ['config.healthzBindAddress=[::1]:10256', 'Load balancers and probes cannot reach [::1]:10256'],
      [
        'podMonitor.enabled=true,config.metricsBindAddress=[::1]:10249',
        'Prometheus cannot reach the metrics on [::1]:10249',
      ],
      ['podMonitor.enabled=true,config.metricsBindAddress=::1', 'Prometheus cannot reach the metrics on ::1'],
      ['podLabels.k8s-app=other', 'k8s-app'],
      ['preparePods=null', "missing property 'preparePods'"],
      ['preparePods.namespaceFolder=null', 'namespaceFolder'],
      ['config.mode=userspace', 'mode'],
      ['config.ipvs.scheduler=5', 'scheduler'],
      ['config.ipvs.strictARP=yes', 'strictARP'],
      ['config.healthzBindAddress=10256', 'healthzBindAddress'],
      ['config.ipvs=lc', 'ipvs'],
      ['overlay=other', 'overlay'],
      ['maxUnavailable=0', 'maxUnavailable'],
      ['updateStrategy=Recreate', 'updateStrategy'],
      ['nameSuffix=nftables', 'nameSuffix'],
      ['image.digest=sha256:12', 'digest'],
      ['apiServer=10.0.0.1:6443', 'apiServer'],
      ['tolerance={}', 'tolerance'],
    ])('%s is an error that names the value', (value, name) => {
      const { status, stderr } = template(value);
      expect(status).not.toBe(0);
      expect(stderr).toContain(name);
    });

    test('every value has a comment and a row in the schema', () => {
      const lines = readFileSync(`${CHART}/values.yaml`, 'utf8').split('\n');
      const { properties } = JSON.parse(readFileSync(`${CHART}/values.schema.json`, 'utf8')) as {
        properties: Readonly<Record<string, unknown>>;
      };
      const names = Object.keys(load(lines.join('\n')) as object);
      expect(Object.keys(properties).filter((name) => name !== 'global')).toEqual(names);
      const before = (name: string): string | undefined =>
        lines[lines.findIndex((line) => line.startsWith(`${name}:`)) - 1];
      expect(names.filter((name) => before(name)?.startsWith('# ') !== true)).toEqual([]);
    });
  });
