import { homedir } from 'node:os';
import path from 'node:path';

export const PROJECT = path.resolve(import.meta.dirname, '../..');

/** What is built or downloaded once for all checkouts. */
export interface Cache {
  /** Of all versions: ~/.cache/kube-ipvs-proxy. */
  readonly home: string;
  readonly bin: string;
  /** Archives that every node imports. */
  readonly images: string;
  /** Where Go modules are resolved and built. */
  readonly modules: string;
  /** Debian packages that nodes run, unpacked and not installed. */
  readonly packages: string;
}

export function cacheOf(kubernetes: string, env: NodeJS.ProcessEnv = process.env): Cache {
  const home = path.join(env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'kube-ipvs-proxy');
  const version = path.join(home, 'kubernetes', kubernetes);
  return {
    home,
    bin: path.join(version, 'bin'),
    images: path.join(version, 'images'),
    modules: path.join(version, 'mod'),
    packages: path.join(home, 'node-packages'),
  };
}

/** Everything that a cluster writes outside its nodes' memory. */
export interface ClusterFolder {
  readonly root: string;
  readonly state: string;
  readonly certificates: string;
  readonly logs: string;
  /** Archives of this checkout, which every node of this cluster imports. */
  readonly images: string;
  readonly manifests: string;
  readonly etcd: string;
  readonly etcdSnapshot: string;
  node(name: string): string;
}

export function clusterFolder(cluster: string, project: string = PROJECT): ClusterFolder {
  const root = path.join(project, 'build', 'cluster', cluster);
  return {
    root,
    state: path.join(root, 'cluster.json'),
    certificates: path.join(root, 'certificates'),
    logs: path.join(root, 'logs'),
    images: path.join(root, 'images'),
    manifests: path.join(root, 'manifests'),
    etcd: path.join(root, 'etcd'),
    etcdSnapshot: path.join(root, 'etcd-snapshot'),
    node: (name) => path.join(root, name),
  };
}
