export interface KubeconfigOptions {
  readonly server: string;
  /** Fields of the cluster, with the names of the kubeconfig format. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  /** Fields of the user, with the names of the kubeconfig format. */
  readonly user?: Readonly<Record<string, unknown>>;
}

/** Returns a kubeconfig as JSON, which all kubeconfig parsers accept. */
export function kubeconfig({ server, cluster = {}, user = {} }: KubeconfigOptions): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, ...cluster } }],
    users: [{ name: 'test', user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  });
}
