import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { CHART, type KubeObject, daemonSetOf, render, template, tools } from '../support/chart.ts';

/** Values, and the parts of the DaemonSet's Pod that they give. */
const OF_THE_POD: readonly (readonly [values: readonly string[], pod: object])[] = [
  [
    ['hostAliases[0].ip=192.0.2.1', 'hostAliases[0].hostnames={api}'],
    { hostAliases: [{ ip: '192.0.2.1', hostnames: ['api'] }] },
  ],
  [
    ['dnsPolicy=None', 'dnsConfig.nameservers={192.0.2.1}'],
    { dnsPolicy: 'None', dnsConfig: { nameservers: ['192.0.2.1'] } },
  ],
  [['serviceAccount.name=mine'], { serviceAccountName: 'mine' }],
  [
    ['podSecurityContext.fsGroup=5', 'overlay=restricted'],
    { securityContext: { fsGroup: 5, seccompProfile: { type: 'RuntimeDefault' } } },
  ],
];

/** Values, and the parts of the main container that they give. */
const OF_THE_CONTAINER: readonly (readonly [values: readonly string[], container: object])[] = [
  [
    ['extraEnv[0].name=HTTPS_PROXY', 'extraEnv[0].value=x'],
    { env: [{ name: 'NODE_NAME' }, { name: 'HTTPS_PROXY', value: 'x' }] },
  ],
  [
    [
      'overlay=restricted',
      'securityContext.seLinuxOptions.type=spc_t',
      'securityContext.appArmorProfile.type=Unconfined',
    ],
    {
      securityContext: {
        seLinuxOptions: { type: 'spc_t' },
        appArmorProfile: { type: 'Unconfined' },
        capabilities: { add: ['NET_ADMIN', 'NET_RAW'] },
      },
    },
  ],
  [
    ['probes.liveness.failureThreshold=9'],
    { livenessProbe: { failureThreshold: 9, periodSeconds: 10, httpGet: { path: '/livez' } } },
  ],
  [['probes.startup.failureThreshold=90'], { startupProbe: { failureThreshold: 90, periodSeconds: 2 } }],
  [['probes.readiness.timeoutSeconds=7'], { readinessProbe: { timeoutSeconds: 7, httpGet: { path: '/healthz' } } }],
];

const of = (objects: readonly KubeObject[], wanted: string, name?: string): KubeObject | undefined =>
  objects.find(({ kind, metadata }) => kind === wanted && (name === undefined || metadata.name === name));

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm');
else
  describe('values of the chart', () => {
    test('values of the Pods', () => {
      for (const [values, pod] of OF_THE_POD)
        expect(daemonSetOf(template(...values)).spec.template.spec).toMatchObject(pod);
    });

    test('values of the main container', () => {
      for (const [values, container] of OF_THE_CONTAINER) {
        expect(daemonSetOf(template(...values)).spec.template.spec.containers[0]).toMatchObject(container);
      }
    });

    test('containers, volumes and mounts in addition', () => {
      const { spec } = daemonSetOf(
        template(
          'overlay=restricted',
          'extraContainers[0].name=beside',
          'extraInitContainers[0].name=before',
          'extraVolumes[0].name=certificates',
          'extraVolumeMounts[0].name=certificates,extraVolumeMounts[0].mountPath=/etc/ssl',
          'initResources.limits.memory=64Mi',
        ),
      ).spec.template;
      const mount = { name: 'certificates', mountPath: '/etc/ssl' };
      expect(spec.initContainers).toMatchObject([
        { name: 'before' },
        { name: 'init', resources: { limits: { memory: '64Mi' } } },
      ]);
      expect(spec.initContainers?.[1]?.volumeMounts).toContainEqual(mount);
      expect(spec.containers.map(({ name }) => name)).toEqual(['kube-ipvs-proxy', 'beside']);
      expect(spec.containers[0]?.volumeMounts).toContainEqual(mount);
      expect(spec.volumes).toContainEqual({ name: 'certificates' });
    });

    test('the roll-out of a DaemonSet', () => {
      const values = ['minReadySeconds=20', 'revisionHistoryLimit=3'];
      expect(daemonSetOf(template(...values)).spec).toMatchObject({ minReadySeconds: 20, revisionHistoryLimit: 3 });
    });

    test('labels and annotations of all objects and Pods, and another name', () => {
      const rendered = template(
        'commonLabels.team=network',
        'commonAnnotations.contact=network',
        'nameOverride=proxy',
        'serviceAccount.annotations.a=b',
        'rbac.annotations.c=d',
      );
      expect(rendered.status).toBe(0);
      for (const { metadata } of rendered.objects) {
        expect(metadata).toMatchObject({
          name: 'proxy',
          labels: { team: 'network' },
          annotations: { contact: 'network' },
        });
      }
      const { selector, template: pod } = daemonSetOf(rendered).spec;
      expect(pod.metadata).toMatchObject({
        labels: { ...selector.matchLabels, team: 'network' },
        annotations: { contact: 'network' },
      });
      expect(selector.matchLabels).not.toHaveProperty('team');
      expect(of(rendered.objects, 'ServiceAccount')).toMatchObject({ metadata: { annotations: { a: 'b' } } });
      expect(of(rendered.objects, 'ClusterRole')).toMatchObject({ metadata: { annotations: { c: 'd' } } });
      expect(of(rendered.objects, 'ClusterRoleBinding')).toMatchObject({
        roleRef: { name: 'proxy' },
        subjects: [{ name: 'proxy' }],
      });
    });

    test('an account and a role that exist', () => {
      const { objects } = template('serviceAccount.create=false', 'serviceAccount.name=mine', 'rbac.create=false');
      expect(objects.map(({ kind }) => kind)).toEqual(['DaemonSet']);
      expect(of(template('serviceAccount.name=mine').objects, 'ClusterRoleBinding')).toMatchObject({
        subjects: [{ name: 'mine' }],
      });
    });

    test('before an upgrade, the new image reads the new configuration, without privileges', () => {
      const values = '--set=apiServer=https://a,config.ipvs.scheduler=lc,extraArgs={--ipvs-drain-timeout=5m}';
      const name = 'kube-ipvs-proxy-check';
      const job = of(render(values, '--no-hooks=false').objects, 'Job', name) as unknown as {
        readonly metadata: unknown;
        readonly spec: {
          readonly template: { readonly metadata: unknown; readonly spec: { readonly containers: readonly [object] } };
        };
      };
      const pod = job.spec.template;
      const main = daemonSetOf(render(values)).spec.template;
      expect(job.metadata).toMatchObject({ annotations: { 'helm.sh/hook': 'pre-upgrade' } });
      expect(pod.metadata).toMatchObject({ annotations: main.metadata.annotations });
      expect(pod.spec.containers[0]).toMatchObject({
        image: main.spec.containers[0]?.image,
        args: [...(main.spec.containers[0]?.args ?? []), '--write-config-to=-'],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      });
      expect(pod.spec).toMatchObject({
        automountServiceAccountToken: false,
        hostNetwork: true,
        restartPolicy: 'Never',
      });
      const without = render(values, '--no-hooks=false', '--set=preUpgradeCheck.enabled=false');
      expect(of(without.objects, 'Job', name)).toBeUndefined();
    });

    test.each([
      ['commonLabels.k8s-app=other', 'k8s-app'],
      ['extraEnv[0].name=NODE_NAME', 'extraEnv'],
      ['extraVolumes[0].name=config', 'extraVolumes'],
      ['probes.liveness.httpGet.path=/', 'httpGet'],
      ['podAnnotations.kube-ipvs-proxy/config\\.conf=x', 'kube-ipvs-proxy/config.conf'],
    ])('%s is an error that names the value', (value, name) => {
      const { status, stderr } = template(value);
      expect(status).not.toBe(0);
      expect(stderr).toContain(name);
    });

    test('Chart.yaml says where the chart comes from', () => {
      const chart = load(readFileSync(`${CHART}/Chart.yaml`, 'utf8')) as Readonly<Record<string, unknown>>;
      const home = 'https://github.com/kube-ipvs-proxy/kube-ipvs-proxy';
      expect(chart).toMatchObject({ home, sources: [home], maintainers: [{ name: 'kube-ipvs-proxy' }] });
      const icon = String(chart['icon']).split('/main/')[1] ?? '';
      expect(readFileSync(icon, 'utf8')).toMatch(/^<svg /);
      expect(chart['annotations']).toMatchObject({ 'artifacthub.io/license': 'Apache-2.0' });
    });
  });
