export interface KubeconfigOptions {
  readonly server: string;
  /** Fields of the cluster, as kubeconfig names them. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  /** Fields of the user, as kubeconfig names them. */
  readonly user?: Readonly<Record<string, unknown>>;
}

/** A kubeconfig as JSON, which every reader of kubeconfigs takes. */
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
