import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { loadAll } from 'js-yaml';
import { CHART, type KubeObject, template, tools } from '../support/chart.ts';

/** The objects of a file of manifests/monitoring. */
function manifest(name: string): readonly { readonly spec: unknown }[] {
  return loadAll(readFileSync(`manifests/monitoring/${name}.yaml`, 'utf8')) as { spec: unknown }[];
}

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm');
else
  describe('monitoring by the chart', () => {
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

    test.each(['selector=job', 'selector=up{job="x"}', 'runbookUrl=docs'])('prometheusRule.%s is an error', (value) => {
      const { status, stderr } = template('prometheusRule.enabled=true', `prometheusRule.${value}`);
      expect(status).not.toBe(0);
      expect(stderr).toContain(value.slice(0, value.indexOf('=')));
    });

    test('alerts can be changed one by one', () => {
      const rulesOf = (...values: readonly string[]): readonly Readonly<Record<string, unknown>>[] => {
        const { objects } = template('prometheusRule.enabled=true', ...values);
        const rule = objects.find(({ kind }) => kind === 'PrometheusRule') as KubeObject & {
          readonly spec: {
            readonly groups: readonly { readonly rules: readonly Readonly<Record<string, unknown>>[] }[];
          };
        };
        return rule.spec.groups[0]?.rules ?? [];
      };
      const alert = 'prometheusRule.alerts.KubeIpvsProxy';
      const before = rulesOf();
      const after = rulesOf(
        `${alert}DrainingLong.enabled=false`,
        `${alert}MemoryHigh.threshold=0.95`,
        `${alert}MemoryHigh.for=1h`,
        `${alert}MemoryHigh.severity=info`,
        `${alert}ProgrammingSlow.threshold=60`,
      );
      const changed = before
        .filter(({ alert: name }) => name !== 'KubeIpvsProxyDrainingLong')
        .map((rule) => {
          if (rule['alert'] === 'KubeIpvsProxyMemoryHigh') {
            const expr = String(rule['expr']).replace('> 0.8', '> 0.95');
            return { ...rule, expr, for: '1h', labels: { severity: 'info' } };
          }
          const slow = rule['alert'] === 'KubeIpvsProxyProgrammingSlow';
          return slow ? { ...rule, expr: String(rule['expr']).replace('> 30', '> 60') } : rule;
        });
      expect(after).toEqual(changed);
      for (const wrong of ['Down.threshold=1', 'MemoryHigh.treshold=1', 'Dwn.enabled=false']) {
        expect([wrong, template(`${alert}${wrong}`).status]).toEqual([wrong, 1]);
      }
    });

    test('the schema has each alert', () => {
      const { properties } = JSON.parse(readFileSync(`${CHART}/values.schema.json`, 'utf8')) as {
        properties: { prometheusRule: { properties: { alerts: { properties: object } } } };
      };
      const rules = JSON.stringify(manifest('prometheus-rules')[0]?.spec);
      const names = Array.from(rules.matchAll(/"alert":"(\w+)"/g), ([, name]) => name);
      expect(Object.keys(properties.prometheusRule.properties.alerts.properties)).toEqual(names);
    });

    test('another job, further relabelings, a timeout of scrapes and a folder of Grafana', () => {
      const { objects } = template(
        'jobLabel=proxy',
        'podMonitor.enabled=true',
        'podMonitor.scrapeTimeout=5s',
        'podMonitor.relabelings[0].targetLabel=zone',
        'podMonitor.metricRelabelings[0].action=drop',
        'podMonitor.annotations.a=b',
        'prometheusRule.enabled=true',
        'dashboard.enabled=true',
        'dashboard.folder=Network',
        'config.metricsBindAddress=0.0.0.0:10249',
      );
      const of = (wanted: string): unknown => objects.find(({ kind }) => kind === wanted);
      expect(of('PodMonitor')).toMatchObject({ metadata: { annotations: { a: 'b' } } });
      const text = JSON.stringify(of('PodMonitor'));
      expect(text).toContain('"scrapeTimeout":"5s"');
      expect(text).toContain('{"targetLabel":"job","replacement":"proxy"}');
      expect(text).toContain('"targetLabel":"instance"},{"targetLabel":"zone"}]');
      expect(text).toContain('"metricRelabelings":[{"action":"drop"}]');
      const rules = JSON.stringify(of('PrometheusRule'));
      expect(rules).toContain(JSON.stringify('job="proxy",service_proxy="kube-ipvs-proxy"').slice(1, -1));
      expect(rules).not.toContain('kube-proxy\\",');
      expect(of('ConfigMap')).toMatchObject({ metadata: { annotations: { grafana_folder: 'Network' } } });
    });
  });
