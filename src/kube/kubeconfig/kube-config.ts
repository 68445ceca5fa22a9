import { readFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http';
import type https from 'node:https';
import { isIPv6 } from 'node:net';
import { unescape } from 'node:querystring';
// Importing the package's index would load the typed clients of all API groups.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import type { Cluster, User } from '@kubernetes/client-node/dist/config_types.js';
import { errorText } from '../../base/text/error-text.ts';
import { isRecord, recordOf } from '../objects/json.ts';
import {
  ANONYMOUS,
  type Access,
  pluginError,
  readKubeconfig,
  tokenFromFile,
  withPluginInfo,
} from './kubeconfig-file.ts';
import { isLoopbackHost, parseProxyUrl, proxyFromEnvironment } from './proxy-choice.ts';

export interface KubeConfigOptions {
  /** Path of a kubeconfig file; "" for none. */
  readonly kubeconfig: string;
  /** URL that replaces the kubeconfig's server; "" for none. If both are "", the Pod's service account is used. */
  readonly master: string;
  /** Path of a kubeconfig of which only the API server is used; "" for none. `master` takes precedence. */
  readonly masterKubeconfig?: string;
  /** Folder to prepend to /var/run/secrets/kubernetes.io/serviceaccount; "" by default. */
  readonly serviceAccountRoot?: string;
}

type Loaded = Extract<LoadedKubeConfig, { ok: true }>;

export type LoadedKubeConfig =
  | {
      readonly ok: true;
      readonly config: KubeConfig;
      readonly cluster: Cluster;
      readonly impersonation: Access['impersonation'];
      /** undefined for a direct connection. For a SOCKS proxy, `config` sets the agent. */
      readonly proxy: URL | undefined;
    }
  | { readonly ok: false; readonly error: string };

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

function fromServiceAccount(root: string): Access | string {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = process.env;
  const folder = `${root}${SERVICE_ACCOUNT}`;
  try {
    for (const [name, value] of Object.entries({ KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port })) {
      if (value === '') throw new Error(`${name} is not set`);
    }
    const caFile = `${folder}/ca.crt`;
    readFileSync(caFile);
    // client-node would use http for some ports, and send the token in the clear.
    const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;
    const user = { name: 'service account', ...tokenFromFile(`${folder}/token`) };
    return { cluster: { name: 'in-cluster', server, caFile, skipTLSVerify: false }, user, impersonation: {} };
  } catch (error) {
    return `no service account found (${errorText(error)}): set --kubeconfig or --master, or run in a Pod with a service account token`;
  }
}

/**
 * Adds http:// to an address without a scheme, as kubectl and kube-proxy do, and drops the query, as they do. Returns
 * undefined if the URL is not valid.
 */
function parseServer(text: string): URL | undefined {
  const address = text.includes('://') ? text : `http://${text}`;
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  url.search = '';
  url.hash = '';
  return /^https?:$/.test(url.protocol) ? url : undefined;
}

/** As with kubectl, credentials in the server's URL have priority over the user's; only a client certificate stays. */
function withUrlCredentials(user: User, { username, password }: URL): User {
  if (username === '' && password === '') return user;
  const { name, certData = '', certFile = '', keyData = '', keyFile = '' } = user;
  const certificate = { certData, certFile, keyData, keyFile };
  return { name, ...certificate, username: unescape(username), password: unescape(password) };
}

/** Returns whether anybody between us and the API server could read our token or password. */
function isExposed(user: User, server: URL, proxy: URL | undefined): boolean {
  if (server.protocol === 'https:' || (isLoopbackHost(server) && (proxy === undefined || isLoopbackHost(proxy)))) {
    return false;
  }
  return [user.token, user.username, user.exec, user.authProvider].some(Boolean);
}

function chooseAccess({ masterKubeconfig = '', ...options }: KubeConfigOptions): Access | string {
  const access = chooseCredentials(options);
  if (typeof access === 'string' || options.master !== '' || masterKubeconfig === '') return access;
  const other = readKubeconfig(masterKubeconfig, '--master-kubeconfig');
  if (typeof other === 'string') return other;
  // The name in the server's certificate belongs to its address.
  const { server, tlsServerName } = other.cluster;
  return { ...access, cluster: { ...access.cluster, server, ...(tlsServerName !== undefined && { tlsServerName }) } };
}

function chooseCredentials({ kubeconfig, master, serviceAccountRoot = '' }: KubeConfigOptions): Access | string {
  if (kubeconfig !== '') return readKubeconfig(kubeconfig, '--kubeconfig');
  if (master === '') return fromServiceAccount(serviceAccountRoot);
  return { cluster: { name: 'master', server: master, skipTLSVerify: false }, user: ANONYMOUS, impersonation: {} };
}

/** Returns the API server and our credentials, or an error that says what to do. Runs no exec plugin. */
export function loadKubeConfig(options: KubeConfigOptions): LoadedKubeConfig {
  const access = chooseAccess(options);
  if (typeof access === 'string') return { ok: false, error: access };

  const text = options.master === '' ? access.cluster.server : options.master;
  const url = parseServer(text);
  if (url === undefined) {
    const shown = text.replace(/\/\/.*@/, '//'); // without a password
    return { ok: false, error: `"${shown}" is not a valid API server URL: write https://host:port` };
  }
  const proxyUrl = access.cluster.proxyUrl ?? '';
  const proxy = proxyUrl === '' ? proxyFromEnvironment(url, process.env) : parseProxyUrl(proxyUrl);
  if (proxyUrl !== '' && proxy === undefined) {
    // Do not show the URL: it may contain a password.
    return { ok: false, error: 'proxy-url of the kubeconfig is not a valid proxy URL: write http://host:port' };
  }
  const server = `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  const user = withUrlCredentials(access.user, url);
  if (isExposed(user, url, proxy)) {
    const error = `the API server ${server} would get our credentials without encryption: write https:// before its address (server in the kubeconfig, or --master), or use a loopback address`;
    return { ok: false, error };
  }
  // client-node refuses plain HTTP unless TLS verification is off.
  const skipTLSVerify = access.cluster.skipTLSVerify || url.protocol === 'http:';
  const { proxyUrl: _chosen, ...direct } = access.cluster;
  const socks = proxy?.protocol.startsWith('socks') === true ? { proxyUrl: proxy.href } : {};
  const cluster = { ...direct, ...socks, server, skipTLSVerify };
  const config = new KubeConfig();
  try {
    config.loadFromClusterAndUser(cluster, withPluginInfo({ ...access, cluster, user }, proxy));
  } catch (error) {
    return { ok: false, error: `failed to read the certificate authority for the exec plugin: ${errorText(error)}` };
  }
  return { ok: true, config, cluster, impersonation: access.impersonation, proxy };
}

/** Returns the configuration without a cached token: client-node reads a token file only once a minute. */
function withFreshToken({ config, cluster }: Loaded): KubeConfig {
  const user = config.getCurrentUser();
  if (user === null || recordOf(user.authProvider)['name'] !== 'tokenFile') return config;
  const fresh = new KubeConfig();
  fresh.loadFromClusterAndUser(cluster, user);
  return fresh;
}

export type HttpOptions = Omit<https.RequestOptions, 'headers'> & { readonly headers: OutgoingHttpHeaders };

/**
 * Adds our credentials, the user to act as, and what TLS needs to the options of a request. Reads the files again, and
 * runs the exec plugin if its last result has expired.
 */
export async function authorize(loaded: Loaded, options: HttpOptions): Promise<void> {
  const user = loaded.config.getCurrentUser();
  Object.assign(options.headers, loaded.impersonation);
  try {
    await withFreshToken(loaded).applyToHTTPSOptions(options);
  } catch (error) {
    throw isRecord(user?.exec) ? pluginError(user.exec, error) : error;
  }
  // Token files often end in a newline, which is invalid in a header.
  const authorization = options.headers['Authorization'];
  if (typeof authorization === 'string') options.headers['Authorization'] = authorization.trim();
  else if (isRecord(user?.exec) && options.cert === undefined) throw pluginError(user.exec);
}
