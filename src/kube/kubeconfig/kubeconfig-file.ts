import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Cluster, User } from '@kubernetes/client-node/dist/config_types.js';
import { loadAll } from 'js-yaml';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import { type JsonRecord, isRecord, listOf, recordOf, textsOf } from '../objects/json.ts';

/** An API server and what to send to it. */
export interface Access {
  readonly cluster: Cluster;
  readonly user: User;
  /** Headers that name the user to act as; a header with several values is sent several times. */
  readonly impersonation: Readonly<Record<string, string | readonly string[]>>;
  /** The exec plugin's configuration of this cluster, if the kubeconfig tells the plugin about the cluster. */
  readonly pluginCluster?: JsonRecord;
}

export const ANONYMOUS: User = { name: 'anonymous' };

/** The name of a cluster's extension that exec plugins get. */
const PLUGIN_EXTENSION = 'client.authentication.k8s.io/exec';
const PLUGIN_VERSION = /^client\.authentication\.k8s\.io\/v1(beta1)?$/;

/**
 * Reads a kubeconfig by the rules of kubectl (k8s.io/client-go/tools/clientcmd), or returns an error that says what to
 * do. client-node's own loader fails for entries that nothing uses, and ignores several fields. `flag` named the file.
 */
export function readKubeconfig(path: string, flag: string): Access | string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'it does not exist' : errorText(error);
    return `failed to read kubeconfig ${path}: ${reason}; check ${flag} and that the file is mounted and readable`;
  }
  let document: unknown;
  try {
    // kubectl reads the first document only, and of a key that occurs twice the last value.
    [document] = loadAll(text, { json: true });
  } catch (error) {
    return `kubeconfig ${path} is not valid: ${errorText(error).split('\n')[0] ?? ''}; fix it with kubectl config`;
  }
  try {
    return currentAccess(recordOf(document), dirname(path));
  } catch (error) {
    return `kubeconfig ${path} ${errorText(error)}`;
  }
}

function currentAccess(document: JsonRecord, folder: string): Access {
  const name = text(document, 'current-context');
  if (name === '') throw new Error('has no current-context: choose one with kubectl config use-context');
  const context = entry(document, 'context', name, 'its current-context');
  const clusterName = text(context, 'cluster');
  const cluster = entry(document, 'cluster', clusterName, `context "${name}"`);
  const userName = text(context, 'user');
  if (userName === '')
    return { cluster: readCluster(clusterName, cluster, folder), user: ANONYMOUS, impersonation: {} };
  const user = entry(document, 'user', userName, `context "${name}"`);
  const exec = recordOf(user['exec']);
  return {
    cluster: readCluster(clusterName, cluster, folder),
    user: readUser(userName, user, folder),
    impersonation: readImpersonation(userName, user),
    ...(exec['provideClusterInfo'] === true ? { pluginCluster: readPluginCluster(cluster) } : {}),
  };
}

/** Returns an entry of the lists `clusters`, `users` or `contexts`. */
function entry(document: JsonRecord, kind: string, name: string, namedBy: string): JsonRecord {
  const [found, second] = listOf(document[`${kind}s`]).filter((item) => isRecord(item) && item['name'] === name);
  if (found === undefined) throw new Error(`has no ${kind} "${name}", which ${namedBy} names`);
  if (second !== undefined) throw new Error(`has two ${kind}s with the name "${name}": delete one of them`);
  return recordOf(recordOf(found)[kind]);
}

/** Returns a field, or "" if it is absent. */
function text(record: JsonRecord, key: string): string {
  const value = record[key] ?? '';
  if (typeof value !== 'string') throw new Error(`has a value of "${key}" that is not text: put it in quotes`);
  return value;
}

/** Returns `{ [name]: value }`; nothing if the value is "". */
function given<K extends string>(name: K, value: string): Partial<Record<K, string>> {
  return value === '' ? {} : ({ [name]: value } as Record<K, string>);
}

function file(record: JsonRecord, key: string, folder: string): string {
  const path = text(record, key);
  return path === '' ? '' : resolve(folder, path);
}

function readCluster(name: string, cluster: JsonRecord, folder: string): Cluster {
  const server = text(cluster, 'server');
  if (server === '') throw new Error(`has no server in cluster "${name}": set it to https://host:port`);
  return {
    name,
    server,
    skipTLSVerify: cluster['insecure-skip-tls-verify'] === true,
    ...given('caData', text(cluster, 'certificate-authority-data')),
    ...given('caFile', file(cluster, 'certificate-authority', folder)),
    ...given('tlsServerName', text(cluster, 'tls-server-name')),
    ...given('proxyUrl', text(cluster, 'proxy-url')),
  };
}

/** Returns the part of a user with which client-node's file authenticator reads a token. It ignores `tokenFile`. */
export function tokenFromFile(tokenFile: string): Pick<User, 'authProvider'> {
  return { authProvider: { name: 'tokenFile', config: { tokenFile } } };
}

function readUser(name: string, user: JsonRecord, folder: string): User {
  const tokenFile = file(user, 'tokenFile', folder);
  const credentials = {
    ...given('certData', text(user, 'client-certificate-data')),
    ...given('certFile', file(user, 'client-certificate', folder)),
    ...given('keyData', text(user, 'client-key-data')),
    ...given('keyFile', file(user, 'client-key', folder)),
    ...given('username', text(user, 'username')),
    ...given('password', text(user, 'password')),
  };
  if (tokenFile !== '') return { name, ...credentials, ...tokenFromFile(tokenFile) };
  const token = text(user, 'token');
  // Other credentials have priority over an exec plugin.
  const hasOther = token !== '' || ['certData', 'certFile', 'username'].some((key) => key in credentials);
  const exec = isRecord(user['exec']) && !hasOther ? { exec: readPlugin(name, user['exec'], folder) } : {};
  const authProvider = isRecord(user['auth-provider']) ? { authProvider: user['auth-provider'] } : {};
  return { name, ...credentials, ...given('token', token), ...authProvider, ...exec };
}

/** Returns the exec plugin with an absolute path of its command, unless it is to be found in PATH. */
function readPlugin(user: string, exec: JsonRecord, folder: string): JsonRecord {
  const [command, apiVersion] = [text(exec, 'command'), text(exec, 'apiVersion')];
  if (command === '') throw new Error(`has an exec plugin without a command for user "${user}": set it`);
  if (!PLUGIN_VERSION.test(apiVersion)) {
    throw new Error(
      `has an exec plugin with the apiVersion "${apiVersion}" for user "${user}": set it to client.authentication.k8s.io/v1`,
    );
  }
  if (exec['interactiveMode'] === 'Always') {
    throw new Error(`has an exec plugin with interactiveMode Always for user "${user}": a daemon has no terminal`);
  }
  const env = listOf(exec['env']).map((item) => ({
    name: text(recordOf(item), 'name'),
    value: text(recordOf(item), 'value'),
  }));
  return {
    apiVersion,
    command: command.includes('/') ? resolve(folder, command) : command,
    args: textsOf(exec['args']),
    env,
  };
}

function readImpersonation(name: string, user: JsonRecord): Access['impersonation'] {
  const [as, uid, groups] = [text(user, 'as'), text(user, 'as-uid'), textsOf(user['as-groups'])];
  const extra = Object.entries(recordOf(user['as-user-extra'])).map(([key, values]) => [
    `Impersonate-Extra-${escapeHeaderName(key)}`,
    textsOf(values),
  ]);
  if (as === '' && (uid !== '' || groups.length > 0 || extra.length > 0)) {
    throw new Error(`has as-uid, as-groups or as-user-extra without "as" for user "${name}": add the user to act as`);
  }
  if (as === '') return {};
  return {
    'Impersonate-User': as,
    ...given('Impersonate-Uid', uid),
    ...(groups.length > 0 ? { 'Impersonate-Group': groups } : {}),
    ...(Object.fromEntries(extra) as Record<string, readonly string[]>),
  };
}

/** Returns a key of as-user-extra in the form that the API server decodes. */
function escapeHeaderName(key: string): string {
  return encodeURIComponent(key).replace(/[()]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

/** Returns the fields of the cluster that only an exec plugin uses. */
function readPluginCluster(cluster: JsonRecord): JsonRecord {
  const extension = listOf(cluster['extensions']).find((item) => recordOf(item)['name'] === PLUGIN_EXTENSION);
  return {
    ...(cluster['disable-compression'] === true ? { 'disable-compression': true } : {}),
    config: recordOf(extension)['extension'] ?? null,
  };
}

/**
 * Returns the user with what its exec plugin, if it has one, gets in KUBERNETES_EXEC_INFO. Throws an error if the file
 * of the certificate authority cannot be read.
 */
export function withPluginInfo({ cluster, user, pluginCluster }: Access, proxy: URL | undefined): User {
  if (!isRecord(user.exec)) return user;
  const { apiVersion, env } = user.exec;
  const ca = cluster.caFile === undefined ? (cluster.caData ?? '') : readFileSync(cluster.caFile, 'base64');
  const known = {
    server: cluster.server,
    ...given('tls-server-name', cluster.tlsServerName ?? ''),
    ...(cluster.skipTLSVerify ? { 'insecure-skip-tls-verify': true } : {}),
    ...given('certificate-authority-data', ca),
    ...given('proxy-url', proxy?.href ?? ''),
    ...pluginCluster,
  };
  const spec = { ...(pluginCluster === undefined ? {} : { cluster: known }), interactive: false };
  const info = { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify({ kind: 'ExecCredential', apiVersion, spec }) };
  return { ...user, exec: { ...user.exec, env: [...listOf(env), info] } };
}

/** Returns an error that names the exec plugin. Without `error`, the plugin returned neither a token nor a certificate. */
export function pluginError(exec: JsonRecord, error?: unknown): Error {
  // client-node reads fields of a result that has none, or is not JSON.
  const isUnusable = error === undefined || error instanceof TypeError || error instanceof SyntaxError;
  const reason = isUnusable ? 'it returned no ExecCredential with a token or a certificate' : errorText(error).trim();
  return new Error(`exec plugin ${String(exec['command'])}: ${reason}`);
}
