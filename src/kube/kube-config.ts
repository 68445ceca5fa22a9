import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
// The package's index brings the typed client of every API group along; this one module is all that is needed.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import type { Cluster, User } from '@kubernetes/client-node/dist/config_types.js';
import { load } from 'js-yaml';
import { errorCode, errorText } from './error-text.ts';
import { isRecord, itemsOf, recordOf, textOf } from './json.ts';
import { parseProxyUrl, proxyFromEnvironment } from './proxy-choice.ts';

export interface KubeConfigOptions {
  /** Path of a kubeconfig file; "" for none. */
  readonly kubeconfig: string;
  /** URL that replaces the kubeconfig's server; "" for none. With neither, we are a pod in the cluster. */
  readonly master: string;
  /** What stands before /var/run/secrets/kubernetes.io/serviceaccount; "" by default. */
  readonly serviceAccountRoot?: string;
}

/** Never both: a configuration to use, or one sentence that says what to do. */
export type LoadedKubeConfig =
  | {
      readonly ok: true;
      readonly config: KubeConfig;
      readonly cluster: Cluster;
      /** How the server is reached; undefined: directly. SOCKS is left to `config`. */
      readonly proxy: URL | undefined;
    }
  | { readonly ok: false; readonly error: string };

interface Access {
  readonly cluster: Cluster;
  readonly user: User;
}

const ANONYMOUS: User = { name: 'anonymous' };

/** kubeconfig's `tokenFile`, which client-node does not know: read by its file authenticator, hence anew every minute. */
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
    return `cannot read kubeconfig ${path}: ${reason}; check --kubeconfig and that the file is mounted and readable`;
  }
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
  } catch (error) {
    return `kubeconfig ${path} is not valid: ${errorText(error).split('\n')[0] ?? ''}; write it anew with kubectl config`;
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
    if (cluster === null || user === null) throw new Error('the service account is incomplete');
    readFileSync(cluster.caFile ?? '');
    return { cluster, user };
  } catch (error) {
    return `this is no pod with a service account (${errorText(error)}): give --kubeconfig or --master, or run in the cluster`;
  }
}

/** Like kubectl and kube-proxy, an address without a scheme is plain HTTP. */
function serverUrl(text: string): string {
  return (text.includes('://') ? text : `http://${text}`).replace(/\/+$/, '');
}

/** Reads where the API server is and who we are. Reads files, starts nothing. */
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
    return { ok: false, error: `"${server}" is no address of an API server: write https://host:port` };
  }
  const proxyUrl = access.cluster.proxyUrl ?? '';
  const proxy = proxyUrl === '' ? proxyFromEnvironment(new URL(server), process.env) : parseProxyUrl(proxyUrl);
  if (proxyUrl !== '' && proxy === undefined) {
    // Not the URL itself: it may hold a password.
    return { ok: false, error: 'the proxy-url of the kubeconfig is no URL of a proxy: write http://host:port' };
  }
  // client-node refuses plain HTTP unless verification is off, which has no meaning there.
  const skipTLSVerify = access.cluster.skipTLSVerify || server.startsWith('http:');
  const { proxyUrl: _chosen, ...direct } = access.cluster;
  const socks = proxy?.protocol.startsWith('socks') === true ? { proxyUrl: proxy.href } : {};
  const cluster = { ...direct, ...socks, server, skipTLSVerify };
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, access.user);
  return { ok: true, config, cluster, proxy };
}
