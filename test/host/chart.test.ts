import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { parseArgv } from '../../src/cli/parse-argv.ts';
import { readConfigDocument } from '../../src/config/config-document.ts';
import {
  CHART,
  HELM,
  KUSTOMIZE,
  type DaemonSet,
  type KubeObject,
  type Rendered,
  daemonSetOf,
  filesOf,
  render,
  run,
  template,
  tools,
} from '../support/chart.ts';

/** A file of the configuration as an object. The overlays have an address that nobody reaches. */
function parsed(text: string | undefined): unknown {
  return load((text ?? '').replace('https://192.0.2.1:6443', 'https://api-server.invalid:6443'));
}

/**
 * Objects without labels and comments, in the order of their kinds. The overlays have the files in a ConfigMap, because
 * kustomize cannot write them to annotations.
 */
function comparable(rendered: Rendered): unknown {
  const map = rendered.objects.find(({ kind }) => kind === 'ConfigMap');
  const files = map?.data ?? filesOf(rendered);
  const text = JSON.stringify(
    rendered.objects.filter(({ kind }) => kind !== 'ConfigMap'),
    (key, value: unknown) => {
      if (key === 'labels' || key === 'annotations') return undefined;
      if (key === 'volumes') return (value as { name: string }[]).filter(({ name }) => name !== 'config');
      return value;
    },
  );
  return {
    objects: (JSON.parse(text) as KubeObject[]).toSorted((a, b) => (a.kind < b.kind ? -1 : 1)),
    files: Object.fromEntries(Object.entries(files).map(([file, content]) => [file, parsed(content)])),
  };
}

if (tools === undefined) test.todo('the chart was not rendered, for this takes Go, which builds helm and kustomize');
else
  describe('the chart', () => {
    test.each(['privileged', 'restricted'])('is the same as the overlay %s', (overlay) => {
      const chart = template(`overlay=${overlay}`);
      expect(chart.status).toBe(0);
      const kustomized = run(KUSTOMIZE, ['build', `manifests/overlays/${overlay}`]);
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
      const kustomized = run(KUSTOMIZE, ['build', folder]);
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

    test('accepts whole configurations of kubeadm and kubespray', () => {
      for (const file of ['kubeadm', 'kubespray']) {
        const config = load(readFileSync(`test/unit/config/known-configs/${file}.yaml`, 'utf8')) as object;
        const values = JSON.stringify({ ...config, mode: 'ipvs', healthzBindAddress: '' });
        const { status, stderr } = render('--set=apiServer=https://a', '--set-json', `config=${values}`);
        expect([file, status, stderr]).toEqual([file, 0, '']);
      }
    });

    test('has the flags of extraArgs with an effect, in every form', () => {
      const extra = ['--ipvs-drain-timeout=5m', '-v=2', '-v2', '--vmodule=sync=4', '--service-metrics'];
      const rendered = template(`extraArgs={${extra.join(',')}}`);
      expect(rendered.stderr).toBe('');
      expect(daemonSetOf(rendered).spec.template.spec.containers[0]?.args.slice(-extra.length)).toEqual(extra);
    });

    test('works where only its folder was copied, and manifests/monitoring has the same files', () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'vendored-'));
      cpSync(CHART, folder, { recursive: true, verbatimSymlinks: true });
      const values = '--set=apiServer=https://a,prometheusRule.enabled=true,dashboard.enabled=true';
      const { status, stderr, objects } = run(HELM, ['template', 'a', folder, '--kube-version=1.35.0', values]);
      rmSync(folder, { recursive: true });
      expect([status, stderr]).toEqual([0, '']);
      expect(objects.map(({ kind }) => kind)).toContain('PrometheusRule');
      for (const name of ['prometheus-rules.yaml', 'grafana-dashboard.json']) {
        expect(realpathSync(`manifests/monitoring/${name}`)).toBe(path.resolve(CHART, 'files', name));
      }
    });

    test('has the version of the package', () => {
      const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
      expect(load(readFileSync(`${CHART}/Chart.yaml`, 'utf8'))).toMatchObject({ version, appVersion: version });
    });

    test('passes the configuration through, as annotations of the Pod that its volume names', () => {
      const files = filesOf(
        template('config.ipvs.scheduler=lc', 'config.conntrack.maxPerCore=0', 'apiServer=https://10.0.0.1:6443'),
      );
      expect(load(files['config.conf'] ?? '')).toMatchObject({
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        ipvs: { scheduler: 'lc', strictARP: false },
        conntrack: { maxPerCore: 0 },
      });
      expect(files['kubeconfig.conf']).toContain('server: https://10.0.0.1:6443\n');
    });

    test.each(['RollingUpdate', 'OnDelete'])(
      'an upgrade with %s takes nothing away that a Pod of the old revision mounts',
      (strategy) => {
        const before = template(`updateStrategy=${strategy}`);
        const after = template(`updateStrategy=${strategy}`, 'config.ipvs.scheduler=lc');
        // A new template is a new revision.
        expect(daemonSetOf(after).spec.template).not.toEqual(daemonSetOf(before).spec.template);
        // What a Pod needs to start again after a reboot: itself, folders of the node, and objects of both revisions.
        const kindsOf = ({ spec }: DaemonSet): string[] =>
          spec.template.spec.volumes.flatMap((volume) => Object.keys(volume).filter((key) => key !== 'name'));
        expect(new Set(kindsOf(daemonSetOf(before)))).toEqual(new Set(['downwardAPI', 'hostPath']));
        const names = ({ objects }: Rendered): string[] =>
          objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
        expect(names(after)).toEqual(names(before));
      },
    );

    test('a program that prunes keeps the ConfigMap of the overlays, also one with a file of the user', () => {
      const folder = mkdtempSync(path.join('build', 'kustomize-'));
      writeFileSync(path.join(folder, 'config.conf'), 'mode: ipvs\n');
      const lines = [
        'resources: [../../manifests/overlays/privileged]',
        'configMapGenerator: [{ name: kube-ipvs-proxy, namespace: kube-system, behavior: merge, files: [config.conf] }]',
      ];
      writeFileSync(path.join(folder, 'kustomization.yaml'), lines.join('\n'));
      const { objects, stderr } = run(KUSTOMIZE, ['build', folder]);
      rmSync(folder, { recursive: true });
      expect(stderr).toBe('');
      expect(objects.find(({ kind }) => kind === 'ConfigMap')).toMatchObject({
        metadata: {
          annotations: {
            'argocd.argoproj.io/sync-options': 'Prune=false',
            'kustomize.toolkit.fluxcd.io/prune': 'disabled',
          },
        },
        data: { 'config.conf': 'mode: ipvs\n' },
      });
    });

    describe('without access to a cluster, as Argo CD renders it', () => {
      test('and without an address, it fails with what to do', () => {
        const { status, stderr, objects } = render();
        expect([status, objects]).toEqual([1, []]);
        expect(stderr).toContain('--set apiServer=https://HOST:6443');
        expect(stderr).toContain('--set kubeletKubeconfig=/etc/kubernetes/kubelet.conf');
      });

      test.each(['privileged', 'restricted'])('each node takes the address of its kubelet: %s', (overlay) => {
        const file = '/etc/kubernetes/kubelet.conf';
        const rendered = render(`--set=kubeletKubeconfig=${file},overlay=${overlay}`);
        expect(rendered.status).toBe(0);
        const { containers, volumes } = daemonSetOf(rendered).spec.template.spec;
        const [container] = containers;
        const flags = parseArgv(container?.args.filter((arg) => !arg.startsWith('--config=')) ?? []);
        expect(flags).toMatchObject({ ok: true, given: { masterKubeconfig: file } });
        const mount = container?.volumeMounts.find(({ mountPath }) => mountPath === file);
        expect(mount).toMatchObject({ readOnly: true });
        expect(volumes.find(({ name }) => name === mount?.name)?.hostPath).toEqual({ path: file, type: 'File' });
      });

      test('several addresses for each Pod', () => {
        const rendered = render('--set=apiServers={https://a:6443,https://b:6443}');
        expect(rendered.status).toBe(0);
        const { args } = daemonSetOf(rendered).spec.template.spec.containers[0] ?? {};
        expect(args).toContain('--master=https://a:6443,https://b:6443');
      });

      test.each(['kubeletKubeconfig=/a', 'apiServers={https://b}'])('two ways to say it are an error: %s', (value) => {
        expect(template(value).stderr).toContain('Set one of apiServer, apiServers and kubeletKubeconfig');
      });
    });

    test('has nftables mode, too', () => {
      const rendered = template('config.mode=nftables');
      expect(rendered.status).toBe(0);
      expect(load(filesOf(rendered)['config.conf'] ?? '')).toMatchObject({ mode: 'nftables' });
    });

    test('has fields of our own as a second document, which the daemon reads, and which the schema checks', () => {
      const set = (value: string): string[] => ['--set=apiServer=https://a', '--set-json', `ownConfig=${value}`];
      const good =
        '{"serviceDefaults":[{"selector":{"matchLabels":{"a":"b"}},"annotations":{"connection-limit":"9"}}]}';
      const { own, warnings } = readConfigDocument(filesOf(render(...set(good)))['config.conf'] ?? '', 'config.conf');
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
      expect(second.objects.find(({ kind }) => kind === 'ClusterRoleBinding')).toMatchObject({
        roleRef: { kind: 'ClusterRole', name: 'kube-ipvs-proxy-nftables' },
        subjects: [{ kind: 'ServiceAccount', name: 'kube-ipvs-proxy-nftables' }],
      });
    });

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
      ['config.mode=kernelspace', 'mode'],
      ['config.ipvs.scheduler=5', 'scheduler'],
      ['config.ipvs.strictARP=yes', 'strictARP'],
      ['config.ipvs.strictArp=true', "additional properties 'strictArp' not allowed"],
      ['config.foo=1', "additional properties 'foo' not allowed"],
      ['config.logging.options.text.splitstream=true', "additional properties 'splitstream' not allowed"],
      ['config.ipvs.syncPeriod=30 s', 'syncPeriod'],
      ['config.conntrack.min=1.5', 'min'],
      [
        'extraArgs={--ipvs-scheduler=lc}',
        'remove --ipvs-scheduler: the file of the configuration replaces it: set config.ipvs.scheduler',
      ],
      ['extraArgs={--udp-timeout=1s}', 'remove --udp-timeout: it has no effect: kube-proxy no longer has it'],
      ['extraArgs={--ipvs-drain-timout=5m}', 'there is no flag --ipvs-drain-timout'],
      ['extraArgs={--hostname-override=a}', "remove --hostname-override: the chart sets it to the Node's name"],
      ['extraArgs={--cleanup}', 'remove --cleanup: the Pod would exit instead of serving'],
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
