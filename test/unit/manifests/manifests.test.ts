import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parseArgv } from '../../../src/cli/parse-argv.ts';
import { readConfigDocument } from '../../../src/config/config-document.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import type { ProxyConfig } from '../../../src/config/proxy-config.ts';
import { VERSION } from '../../../src/config/version.ts';
import { loadKubeConfig } from '../../../src/kube/kubeconfig/kube-config.ts';
import { type Built, type Item, at, build, itemsOf, readYaml } from './kustomization.ts';

const MOUNT = '/etc/kube-ipvs-proxy';
const OVERLAYS = ['privileged', 'restricted'] as const;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'manifests-'));
});

afterAll(() => rmSync(folder, { recursive: true }));

/** The one object of its kind. */
function only(built: Built, kind: string): Item {
  const found = built.objects.filter((object) => object['kind'] === kind);
  if (found.length !== 1) throw new Error(`${found.length} objects of kind ${kind}`);
  return found[0] ?? {};
}

function podOf(built: Built): Item {
  return at(only(built, 'DaemonSet'), 'spec', 'template', 'spec');
}

function containersOf(built: Built): readonly Item[] {
  const pod = podOf(built);
  return [...itemsOf(pod['initContainers']), ...itemsOf(pod['containers'])];
}

function main(built: Built): Item {
  return itemsOf(podOf(built)['containers'])[0] ?? {};
}

/** What the program makes of a container's arguments, with the ConfigMap's files where the Pod has them. */
async function configOf(built: Built, container: Item): Promise<ProxyConfig> {
  for (const [name, text] of Object.entries(
    built.files['kube-ipvs-proxy'] ?? built.files['kube-ipvs-proxy-shadow'] ?? {},
  )) {
    writeFileSync(path.join(folder, name), text);
  }
  const argv = (container['args'] as readonly string[]).map((arg) =>
    arg.replaceAll('$(NODE_NAME)', 'node-1').replaceAll(MOUNT, folder),
  );
  const parsed = parseArgv(argv);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  return await loadConfig(parsed.given);
}

test('every YAML file below manifests/ can be read', () => {
  const files = readdirSync('manifests', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.yaml'),
  );
  expect(files.length).toBeGreaterThan(10);
  for (const file of files) expect(readYaml(path.join('manifests', file))).not.toEqual([]);
});

test('every kustomization refers to existing files', () => {
  const folders = readdirSync('manifests', { recursive: true, encoding: 'utf8' })
    .filter((name) => path.basename(name) === 'kustomization.yaml')
    .map((name) => path.dirname(name));
  expect(folders.toSorted()).toEqual([
    'base',
    'components/labelled-nodes',
    'components/prepare-pods',
    'overlays/privileged',
    'overlays/restricted',
    'overlays/shadow',
  ]);
});

describe.each(OVERLAYS)('overlay %s', (overlay) => {
  const built = build(`manifests/overlays/${overlay}`);

  test('the overlay has what a DaemonSet needs, and nothing else', () => {
    expect(built.objects.map(({ kind }) => String(kind)).toSorted()).toEqual([
      'ClusterRole',
      'ClusterRoleBinding',
      'DaemonSet',
      'ServiceAccount',
    ]);
    expect(Object.keys(built.files)).toEqual(['kube-ipvs-proxy']);
  });

  test('every container starts with its flags and the ConfigMap, without a log line', async () => {
    for (const container of containersOf(built)) {
      const config = await configOf(built, container);
      expect(config).toMatchObject({ hostnameOverride: 'node-1', bindAddressHardFail: true, notes: [] });
      expect(config.action).toBe(container['name'] === 'init' ? 'init-only' : 'run');
      expect(config.api.kubeconfig).toBe(`${MOUNT}/kubeconfig.conf`);
    }
  });

  test('the kubeconfig uses the ServiceAccount files, which rotate', () => {
    writeFileSync(path.join(folder, 'kubeconfig'), built.files['kube-ipvs-proxy']?.['kubeconfig.conf'] ?? '');
    const loaded = loadKubeConfig({ kubeconfig: path.join(folder, 'kubeconfig'), master: '' });
    expect(loaded).toMatchObject({ ok: true });
    if (!loaded.ok) return;
    const account = '/var/run/secrets/kubernetes.io/serviceaccount';
    expect(loaded.cluster).toMatchObject({ caFile: `${account}/ca.crt`, skipTLSVerify: false });
    expect(loaded.config.getCurrentUser()?.authProvider).toMatchObject({ config: { tokenFile: `${account}/token` } });
  });

  test('probes use the address of the health server in the configuration', async () => {
    const { healthzBind } = await configOf(built, main(built));
    const probes = { startupProbe: '/livez', livenessProbe: '/livez', readinessProbe: '/healthz' };
    for (const [probe, asked] of Object.entries(probes)) {
      expect(at(main(built), probe, 'httpGet')).toEqual({ path: asked, port: healthzBind?.port });
    }
  });

  test('the image has the tag of this version, in every container', () => {
    expect(new Set(containersOf(built).map(({ image }) => image))).toEqual(new Set([`kube-ipvs-proxy:v${VERSION}`]));
  });

  test('the DaemonSet runs on every node and is not evicted', () => {
    expect(podOf(built)).toMatchObject({
      priorityClassName: 'system-node-critical',
      hostNetwork: true,
      tolerations: [{ operator: 'Exists' }],
      serviceAccountName: at(only(built, 'ServiceAccount'), 'metadata')['name'],
    });
  });

  test('every mount has a volume, and every volume a mount', () => {
    const mounted = containersOf(built).flatMap((container) =>
      itemsOf(container['volumeMounts']).map(({ name }) => name),
    );
    const volumes = itemsOf(podOf(built)['volumes']).map(({ name }) => name);
    expect(new Set(mounted)).toEqual(new Set(volumes));
  });

  test('the Pod needs no existing folder or file on the node', () => {
    const paths = itemsOf(podOf(built)['volumes']).flatMap(({ hostPath }) =>
      hostPath === undefined ? [] : [hostPath],
    );
    expect(paths).toEqual([
      { path: '/lib/modules' },
      { path: '/run/xtables.lock', type: 'FileOrCreate' },
      { path: '/run/kube-ipvs-proxy', type: 'DirectoryOrCreate' },
    ]);
  });

  test('labels, selector and role binding match', () => {
    const set = only(built, 'DaemonSet');
    expect(at(set, 'spec', 'template', 'metadata', 'labels')).toMatchObject(at(set, 'spec', 'selector', 'matchLabels'));
    const binding = only(built, 'ClusterRoleBinding');
    expect(at(binding, 'roleRef')['name']).toBe(at(only(built, 'ClusterRole'), 'metadata')['name']);
    expect(itemsOf(binding['subjects'])).toEqual([
      { kind: 'ServiceAccount', name: 'kube-ipvs-proxy', namespace: 'kube-system' },
    ]);
  });
});

describe('overlay shadow', () => {
  const built = build('manifests/overlays/shadow');
  const NAME = 'kube-ipvs-proxy-shadow';

  test('its objects are of the kinds of the other overlays, and all of them have names of their own', () => {
    const names = built.objects.map((object) => `${String(object['kind'])} ${String(at(object, 'metadata')['name'])}`);
    expect(names.toSorted()).toEqual(
      ['ClusterRole', 'ClusterRoleBinding', 'DaemonSet', 'ServiceAccount'].map((kind) => `${kind} ${NAME}`),
    );
    expect(Object.keys(built.files)).toEqual([NAME]);
    expect(podOf(built)['serviceAccountName']).toBe(NAME);
    expect(itemsOf(podOf(built)['volumes']).map(({ configMap }) => configMap)).toContainEqual({ name: NAME });
    expect(at(only(built, 'ClusterRoleBinding'), 'roleRef')['name']).toBe(NAME);
  });

  test('no selector of the proxy selects its Pods, and its own selects them', () => {
    const set = only(built, 'DaemonSet');
    const ours = only(build('manifests/overlays/restricted'), 'DaemonSet');
    const labels = at(set, 'spec', 'template', 'metadata', 'labels');
    expect(labels).toEqual(at(set, 'spec', 'selector', 'matchLabels'));
    expect(labels).not.toMatchObject(at(ours, 'spec', 'selector', 'matchLabels'));
  });

  test('it is a dry run, which takes no port of the configuration', async () => {
    const { action, healthzBind, metricsBind, notes } = await configOf(built, main(built));
    expect({ action, notes }).toEqual({ action: 'dry-run', notes: [] });
    expect([healthzBind?.port, metricsBind?.port]).toEqual([10_356, 10_349]);
    expect(itemsOf(main(built)['ports'])).toEqual([{ name: 'health', containerPort: 10_356, protocol: 'TCP' }]);
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
      expect(at(main(built), probe, 'httpGet')).toEqual({ path: '/livez', port: healthzBind?.port });
    }
  });

  test('it may write nowhere on the node but to a folder of its own, and has the rights to read the kernel', () => {
    expect(containersOf(built)).toHaveLength(1);
    expect(main(built)['securityContext']).toEqual({
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      runAsUser: 0,
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] },
    });
    const volumes = itemsOf(podOf(built)['volumes']);
    expect(volumes.flatMap(({ hostPath }) => (hostPath === undefined ? [] : [hostPath]))).toEqual([
      { path: '/run/kube-ipvs-proxy-shadow', type: 'DirectoryOrCreate' },
    ]);
    const mounts = itemsOf(main(built)['volumeMounts']).map(({ name }) => name);
    expect(new Set(mounts)).toEqual(new Set(volumes.map(({ name }) => name)));
  });

  test('it displaces no other Pod, and may only read from the API server', () => {
    expect(podOf(built)).not.toHaveProperty('priorityClassName');
    const verbs = itemsOf(only(built, 'ClusterRole')['rules']).flatMap(({ verbs: allowed }) => allowed);
    expect(new Set(verbs)).toEqual(new Set(['list', 'watch']));
  });
});

describe('rights on the node', () => {
  test('the privileged overlay has one privileged container', () => {
    const built = build('manifests/overlays/privileged');
    expect(containersOf(built)).toHaveLength(1);
    expect(main(built)['securityContext']).toEqual({ privileged: true });
  });

  test('the restricted overlay has full rights for the init container only', () => {
    const built = build('manifests/overlays/restricted');
    const [init] = itemsOf(podOf(built)['initContainers']);
    expect(at(init ?? {}, 'securityContext')['privileged']).toBe(true);
    expect(init?.['args']).toContain('--init-only');
    expect(main(built)['securityContext']).toEqual({
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      runAsUser: 0,
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] },
    });
    expect(at(podOf(built), 'securityContext', 'seccompProfile')).toEqual({ type: 'RuntimeDefault' });
    const mounts = itemsOf(main(built)['volumeMounts']);
    expect(mounts.map(({ name }) => name)).not.toContain('lib-modules');
  });
});

test('component labelled-nodes adds a label to the selector of nodes', () => {
  const built = build('manifests/components/labelled-nodes', build('manifests/overlays/restricted'));
  expect(podOf(built)['nodeSelector']).toEqual({
    'kubernetes.io/os': 'linux',
    'service-proxy': 'kube-ipvs-proxy',
  });
});

test('component prepare-pods adds its flag, and the folder with the namespaces of Pods', async () => {
  const privileged = build('manifests/overlays/privileged');
  const built = build('manifests/components/prepare-pods', privileged);
  expect(main(built)['args']).toEqual([...(main(privileged)['args'] as string[]), '--dsr-prepare-pods']);
  const { podNamespaceFolder, prepareDirectPods } = await configOf(built, main(built));
  expect(prepareDirectPods).toBe(true);
  const mounts = itemsOf(main(built)['volumeMounts']);
  expect(mounts.find(({ name }) => name === 'netns')).toEqual({
    name: 'netns',
    mountPath: podNamespaceFolder,
    mountPropagation: 'HostToContainer',
    readOnly: true,
  });
});

test('the configuration for kind can be read', () => {
  const text = readYaml('manifests/kind/config.conf');
  expect(readConfigDocument(JSON.stringify(text[0]), 'kind')).toMatchObject({ fields: { mode: 'ipvs' }, warnings: [] });
});
