import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
// Importing the package's index would load the typed clients of all API groups.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import type { Cluster, User } from '@kubernetes/client-node/dist/config_types.js';
import { load } from 'js-yaml';
import { errorCode, errorText } from '../../base/error-text.ts';
import { isRecord, itemsOf, recordOf, textOf } from '../objects/json.ts';
import { parseProxyUrl, proxyFromEnvironment } from './proxy-choice.ts';

export interface KubeConfigOptions {
  /** Path of a kubeconfig file; "" for none. */
  readonly kubeconfig: string;
  /** URL that replaces the kubeconfig's server; "" for none. If both are "", the Pod's service account is used. */
  readonly master: string;
  /** Folder to prepend to /var/run/secrets/kubernetes.io/serviceaccount; "" by default. */
  readonly serviceAccountRoot?: string;
}

export type LoadedKubeConfig =
  | {
      readonly ok: true;
      readonly config: KubeConfig;
      readonly cluster: Cluster;
      /** undefined for a direct connection. For a SOCKS proxy, `config` sets the agent. */
      readonly proxy: URL | undefined;
    }
  | { readonly ok: false; readonly error: string };

interface Access {
  readonly cluster: Cluster;
  readonly user: User;
}

const ANONYMOUS: User = { name: 'anonymous' };

/** Supports the kubeconfig's `tokenFile`, which client-node ignores, through client-node's file authenticator. */
function withTokenFile(user: User, text: string, folder: string): User {
  const entry = itemsOf(recordOf(load(text))['users'], (item) =>
    isRecord(item) && item['name'] === user.name ? item : undefined,
  )[0];
  const tokenFile = textOf(recordOf(entry?.['user'])['tokenFile']);
  if (tokenFile === undefined || tokenFile === '') return user;
  const { token: _replaced, ...rest } = user;
  return { ...rest, authProvider: { name: 'tokenFile', config: { tokenFile: resolve(folder, tokenFile) } } };
}

function fromFile(path: string): Access | string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'it does not exist' : errorText(error);
    return `failed to read kubeconfig ${path}: ${reason}; check --kubeconfig and that the file is mounted and readable`;
  }
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
  } catch (error) {
    return `kubeconfig ${path} is not valid: ${errorText(error).split('\n')[0] ?? ''}; fix it with kubectl config`;
  }
  config.makePathsAbsolute(dirname(path));
  const name = textOf(config.getCurrentContext());
  if (name === undefined || name === '') {
    return `kubeconfig ${path} has no current-context: choose one with kubectl config use-context`;
  }
  const context = config.getContextObject(name);
  if (context === null) return `kubeconfig ${path} has no context "${name}", which its current-context names`;
  const cluster = config.getCurrentCluster();
  if (cluster === null) return `kubeconfig ${path} has no cluster "${context.cluster}", which context "${name}" names`;
  const user = config.getCurrentUser();
  if (user === null && context.user !== undefined) {
    return `kubeconfig ${path} has no user "${context.user}", which context "${name}" names`;
  }
  return { cluster, user: user === null ? ANONYMOUS : withTokenFile(user, text, dirname(path)) };
}

function fromServiceAccount(root: string): Access | string {
  const config = new KubeConfig();
  try {
    if (process.env['KUBERNETES_SERVICE_HOST'] === undefined) throw new Error('KUBERNETES_SERVICE_HOST is not set');
    config.loadFromCluster(root);
    const cluster = config.getCurrentCluster();
    const user = config.getCurrentUser();
    if (cluster === null || user === null) throw new Error('its configuration lacks the API server or the credentials');
    readFileSync(cluster.caFile ?? '');
    return { cluster, user };
  } catch (error) {
    return `no service account found (${errorText(error)}): set --kubeconfig or --master, or run in a Pod with a service account token`;
  }
}

/** Adds http:// to an address without a scheme, as kubectl and kube-proxy do. */
function serverUrl(text: string): string {
  return (text.includes('://') ? text : `http://${text}`).replace(/\/+$/, '');
}

/** Returns the API server and our credentials, or an error that says what to do. Runs no exec plugin. */
export function loadKubeConfig(options: KubeConfigOptions): LoadedKubeConfig {
  const { kubeconfig, master } = options;
  let access: Access | string;
  if (kubeconfig !== '') access = fromFile(kubeconfig);
  else if (master !== '')
    access = { cluster: { name: 'master', server: master, skipTLSVerify: false }, user: ANONYMOUS };
  else access = fromServiceAccount(options.serviceAccountRoot ?? '');
  if (typeof access === 'string') return { ok: false, error: access };

  const server = serverUrl(master === '' ? access.cluster.server : master);
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    return { ok: false, error: `"${server}" is not a valid API server URL: write https://host:port` };
  }
  const proxyUrl = access.cluster.proxyUrl ?? '';
  const proxy = proxyUrl === '' ? proxyFromEnvironment(new URL(server), process.env) : parseProxyUrl(proxyUrl);
  if (proxyUrl !== '' && proxy === undefined) {
    // Do not show the URL: it may contain a password.
    return { ok: false, error: 'proxy-url of the kubeconfig is not a valid proxy URL: write http://host:port' };
  }
  // client-node refuses plain HTTP unless TLS verification is off.
  const skipTLSVerify = access.cluster.skipTLSVerify || server.startsWith('http:');
  const { proxyUrl: _chosen, ...direct } = access.cluster;
  const socks = proxy?.protocol.startsWith('socks') === true ? { proxyUrl: proxy.href } : {};
  const cluster = { ...direct, ...socks, server, skipTLSVerify };
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, access.user);
  return { ok: true, config, cluster, proxy };
}

/** Returns the configuration without a cached token: client-node reads a token file only once a minute. */
export function withFreshToken({ config, cluster }: Extract<LoadedKubeConfig, { ok: true }>): KubeConfig {
  const user = config.getCurrentUser();
  if (user === null || recordOf(user.authProvider)['name'] !== 'tokenFile') return config;
  const fresh = new KubeConfig();
  fresh.loadFromClusterAndUser(cluster, user);
  return fresh;
}
