import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { PLANS, apiServer, each, nodeIndexes, nodeName, primary } from './addresses.ts';
import { Authority, type Certificate, apiServerCertificate } from './certificates.ts';
import { startComponent, until } from './component.ts';
import type { ClusterFolder } from './folders.ts';
import { inside } from './keeper.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { type Kubectl, answers } from './kubectl.ts';
import type { Settings } from './settings.ts';
import type { ComponentState, ProcessMark } from './state-file.ts';

/** Files of the control plane: certificates, and a kubeconfig for each of its parts and each node. */
export interface Credentials {
  readonly authority: Authority;
  readonly apiServer: Certificate;
  /** With this, the API server reaches the kubelets. */
  readonly kubeletClient: Certificate;
  /** With this, the API server calls those that extend it. */
  readonly frontProxy: Certificate;
  readonly serviceAccounts: { readonly publicKey: string; readonly privateKey: string };
}

const USERS = [
  ['admin', 'admin', 'system:masters'],
  ['kube-controller-manager', 'system:kube-controller-manager', undefined],
  ['kube-scheduler', 'system:kube-scheduler', undefined],
] as const;

const FRONT_PROXY = 'front-proxy-client';

export function kubeconfigOf(folder: ClusterFolder, user: string): string {
  return path.join(folder.certificates, `${user}.kubeconfig`);
}

export async function createCredentials(folder: ClusterFolder, settings: Settings): Promise<Credentials> {
  const authority = await Authority.create(folder.certificates);
  const server = apiServer(settings.families);
  const nodes = nodeIndexes(settings.nodes).map(nodeName);
  const users = [...USERS, ...nodes.map((name) => [name, `system:node:${name}`, 'system:nodes'] as const)];
  for (const [file, user, group] of users) {
    await writeKubeconfig(kubeconfigOf(folder, file), server, authority, await authority.client(file, user, group));
  }
  return {
    authority,
    apiServer: await apiServerCertificate(authority, settings.families),
    kubeletClient: await authority.client('kubelet-client', 'kubelet-client', 'system:masters'),
    frontProxy: await authority.client('front-proxy', FRONT_PROXY),
    serviceAccounts: await authority.serviceAccountKeys(),
  };
}

/** Starts etcd, the API server, the controller manager and the scheduler, and waits until the API server is ready. */
export async function startControlPlane(
  keeper: ProcessMark,
  folder: ClusterFolder,
  bin: string,
  settings: Settings,
  credentials: Credentials,
  kubectl: Kubectl,
): Promise<readonly ComponentState[]> {
  await mkdir(folder.etcd, { recursive: true });
  const start = (name: string, flags: readonly string[]): Promise<ComponentState> =>
    startComponent(keeper, folder.logs, name, [path.join(bin, name), ...flags]);
  const etcd = await start('etcd', etcdFlags(folder));
  await awaitEtcd(etcd, keeper);
  const server = await start('kube-apiserver', apiServerFlags(settings, credentials));
  await awaitApiServer(server, kubectl);
  const manager = await start('kube-controller-manager', managerFlags(folder, settings, credentials));
  const scheduler = await start('kube-scheduler', clientFlags(folder, 'kube-scheduler'));
  return [etcd, server, manager, scheduler];
}

export function awaitEtcd(etcd: ComponentState, keeper: ProcessMark): Promise<void> {
  return until(etcd, 120, async () => ((await answers(curl(keeper), [`${ETCD}/readyz`])) ? undefined : 'not ready'));
}

export function awaitApiServer(server: ComponentState, kubectl: Kubectl): Promise<void> {
  return until(server, 240, async () =>
    (await answers(kubectl, ['get', '--raw', '/readyz'])) ? undefined : 'not ready',
  );
}

const ETCD = 'http://127.0.0.1:2379';

function curl(keeper: ProcessMark): readonly string[] {
  return inside(keeper, ['curl', '--silent', '--fail']);
}

function etcdFlags(folder: ClusterFolder): readonly string[] {
  return [
    `--data-dir=${folder.etcd}`,
    `--listen-client-urls=${ETCD}`,
    `--advertise-client-urls=${ETCD}`,
    '--listen-peer-urls=http://127.0.0.1:2380',
    '--unsafe-no-fsync',
  ];
}

export function apiServerFlags({ families }: Settings, credentials: Credentials): readonly string[] {
  const { bridge } = primary(families);
  return [
    `--etcd-servers=${ETCD}`,
    '--secure-port=6443',
    `--bind-address=${bridge.includes(':') || families.length > 1 ? '::' : '0.0.0.0'}`,
    `--advertise-address=${bridge}`,
    `--service-cluster-ip-range=${each(families, (plan) => plan.services)}`,
    '--allow-privileged=true',
    '--authorization-mode=Node,RBAC',
    `--client-ca-file=${credentials.authority.certificate}`,
    `--tls-cert-file=${credentials.apiServer.certificate}`,
    `--tls-private-key-file=${credentials.apiServer.key}`,
    `--kubelet-client-certificate=${credentials.kubeletClient.certificate}`,
    `--kubelet-client-key=${credentials.kubeletClient.key}`,
    `--requestheader-client-ca-file=${credentials.authority.certificate}`,
    `--requestheader-allowed-names=${FRONT_PROXY}`,
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${credentials.frontProxy.certificate}`,
    `--proxy-client-key-file=${credentials.frontProxy.key}`,
    '--kubelet-preferred-address-types=InternalIP',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${credentials.serviceAccounts.publicKey}`,
    `--service-account-signing-key-file=${credentials.serviceAccounts.privateKey}`,
  ];
}

/** Node CIDRs are not allocated: the routes exist before the nodes (network.ts), so node N has the Nth. */
function managerFlags(folder: ClusterFolder, { families }: Settings, credentials: Credentials): readonly string[] {
  return [
    ...clientFlags(folder, 'kube-controller-manager'),
    `--cluster-cidr=${families.map((family) => PLANS[family].pods).join()}`,
    '--allocate-node-cidrs=false',
    '--use-service-account-credentials',
    `--root-ca-file=${credentials.authority.certificate}`,
    `--service-account-private-key-file=${credentials.serviceAccounts.privateKey}`,
    `--cluster-signing-cert-file=${credentials.authority.certificate}`,
    `--cluster-signing-key-file=${credentials.authority.key}`,
  ];
}

function clientFlags(folder: ClusterFolder, name: string): readonly string[] {
  const file = kubeconfigOf(folder, name);
  const flags = ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map(
    (flag) => `--${flag}=${file}`,
  );
  return [...flags, '--leader-elect=false'];
}
